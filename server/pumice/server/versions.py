"""The version of pumice."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def own_version() -> str:
    """The version of the installed package; ``unknown`` if it is not installed."""
    try:
        return metadata.version("pumice")
    except metadata.PackageNotFoundError:
        return "unknown"
