"""The error of an expression that cannot be read or evaluated."""

from __future__ import annotations


class CelError(ValueError):
    """What is wrong with an expression, or with a value that it meets."""
