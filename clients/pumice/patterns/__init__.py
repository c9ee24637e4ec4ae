"""Texts as Go reads them, for the engine, the controllers and the manifests."""
