"""Which nodes a task may go to, and which is best: filters, scores and class views."""
