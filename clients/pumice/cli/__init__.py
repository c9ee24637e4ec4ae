"""The `pumice` command: the composition root of every room."""
