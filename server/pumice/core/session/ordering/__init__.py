"""Orders of queues, jobs, sub-jobs and tasks, and the heaps that use them."""
