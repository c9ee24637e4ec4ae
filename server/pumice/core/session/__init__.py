"""One scheduling cycle: hooks, votes, statements, and what is written at its end."""
