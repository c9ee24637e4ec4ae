"""Policies of the API server that are made from Volcano's admission configuration."""
