"""MIG: cards that are divided into instances of fixed sizes."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.core.plugins.deviceshare.cards import plain_int
from pumice.core.plugins.deviceshare.device_config import Geometry


def free_instance(
    geometries: Sequence[Geometry], parts: Sequence[str], memory: int
) -> tuple[str, int] | None:
    """The smallest free instance with enough memory: how it is written, and its memory.

    A card with instances in use keeps the geometry that they are of. Otherwise the first geometry
    with such an instance is taken.
    """
    in_use = [_place(part) for part in parts]
    groups = {place[0] for place in in_use if place is not None}
    for geometry in geometries:
        if in_use and groups != {geometry.group}:
            continue
        found, start = [], 0
        for size, count in geometry.instances:
            places = range(start, start + count)
            free = next((p for p in places if (geometry.group, p) not in in_use), None)
            if free is not None and size >= memory:
                found.append((size, free))
            start += count
        if found:
            size, position = min(found)
            return f"[{geometry.group}-{position}]", size
    return None


def memory_of(geometries: Sequence[Geometry], part: str) -> int | None:
    """The memory of an instance; None: it is of no known geometry."""
    place = _place(part)
    for geometry in geometries:
        if place is not None and geometry.group == place[0]:
            return geometry.memory_at(place[1])
    return None


def _place(part: str) -> tuple[str, int] | None:
    """Geometry and position of an instance that is written ``[group-3]``."""
    group, _, text = part.strip("[]").rpartition("-")
    position = plain_int(text)
    return None if position is None else (group, position)
