"""Admission policies of the API server that follow from Volcano's admission configuration."""
