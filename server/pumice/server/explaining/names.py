"""Finds names that are similar to a name that does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_COUNT = 3
_CUTOFF = 0.5


def nearest_names(key: str, names: Sequence[str]) -> list[str]:
    """Similar names in the namespace, then the same name in other namespaces, then similar keys."""
    namespace, _, name = key.partition("/")
    beside = {each.partition("/")[2]: each for each in names if each.startswith(f"{namespace}/")}
    found = [beside[near] for near in get_close_matches(name, beside, n=_COUNT)]
    found += [each for each in names if each.partition("/")[2] == name and each not in found]
    return found[:_COUNT] or get_close_matches(key, names, n=_COUNT, cutoff=_CUTOFF)
