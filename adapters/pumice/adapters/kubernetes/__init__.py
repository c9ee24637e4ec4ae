"""A Kubernetes cluster as a world, watched and changed through its API."""
