"""Loads the fixtures of pumice."""

pytest_plugins = ["pumice.testing.fixtures"]
