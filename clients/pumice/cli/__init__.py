"""The `pumice` command, which puts the packages together."""
