"""Adapters: what stands between a cluster and the core."""
