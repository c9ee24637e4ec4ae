"""A real Kubernetes cluster as a world: watched, bound, evicted and written to over its API."""
