"""Estimates of the start of a job: the engine runs ahead of time on a copy of the cluster."""
