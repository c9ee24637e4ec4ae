"""The version of pumice."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def own_version() -> str:
    """Of the package; source files that were never installed have none."""
    try:
        return metadata.version("pumice")
    except metadata.PackageNotFoundError:
        return "unknown"
