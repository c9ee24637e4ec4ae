"""Adapters: they connect clusters to the core."""
