"""A world that exists in memory only."""
