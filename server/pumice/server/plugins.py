"""Finds the plugins that others ship."""

from __future__ import annotations

from importlib.metadata import entry_points

from pumice.core.registry import Registry

GROUP = "pumice.plugins"


def installed_registry() -> Registry:
    """What is built in, and every installed entry point of the group ``pumice.plugins``."""
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return Registry(point.load() for point in found)
