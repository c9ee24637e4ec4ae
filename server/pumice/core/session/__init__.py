"""One cycle: hooks, votes, trials, and the way they end."""
