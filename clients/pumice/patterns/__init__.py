"""Parsers of Go's and Kubernetes' text formats, for the engine, controllers and manifests."""
