"""Explanations of jobs and pods, from the state of the cluster and the results of sessions."""
