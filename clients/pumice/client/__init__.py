"""The client library: the services of a core as Python calls."""
