"""The wire: generated messages and stubs of pumice.v1."""
