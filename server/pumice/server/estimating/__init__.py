"""Estimates of when a job starts: the engine is run forward on a copy of the cluster."""
