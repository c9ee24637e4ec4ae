"""The cluster as the deltas describe it."""
