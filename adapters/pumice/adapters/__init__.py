"""Adapters, which connect clusters to the core."""
