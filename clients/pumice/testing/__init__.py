"""Helpers for tests of plugins, configurations and frontends."""
