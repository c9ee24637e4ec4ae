"""Texts as Go and Kubernetes read them, for the engine, the controllers and the manifests."""
