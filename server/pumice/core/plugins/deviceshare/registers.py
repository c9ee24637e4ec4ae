"""The cards that a device plugin registers in an annotation of its node, and their MIG instances."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pumice.core.plugins.deviceshare.cards import named_cards, parse_uint32
from pumice.core.plugins.deviceshare.device_config import DeviceConfig, Geometry

HAMI_CORE, MIG = "hami-core", "mig"
_FIELDS = 6


class Card(NamedTuple):
    """One card: the maximum number of pods that share it, its memory, type and sharing mode."""

    max_pods: int
    memory: int
    type: str
    mode: str = HAMI_CORE
    # Empty where the card is not in MIG mode.
    geometries: tuple[Geometry, ...] = ()


@lru_cache(maxsize=16_384)
def read_register(
    text: str, config: DeviceConfig
) -> tuple[tuple[Card, ...], tuple[str, ...]] | None:
    """The cards in an annotation and their names; None: there are none, or one has too few fields.

    An invalid number counts as 0. As in Volcano, all cards have the mode of the last card; MIG needs a
    known geometry.
    """
    parts = [part.split(",") for part in text.split(":") if "," in part]
    if ":" not in text or not parts or any(len(fields) < _FIELDS for fields in parts):
        return None
    last = parts[-1]
    mode = MIG if last[5] == MIG and config.geometries_of(last[3]) else HAMI_CORE
    named = []
    for name, max_pods, memory, type_, _, own_mode in (fields[:_FIELDS] for fields in parts):
        geometries = config.geometries_of(type_) if mode == own_mode == MIG else ()
        numbers = (parse_uint32(max_pods) or 0, parse_uint32(memory) or 0)
        named.append((name, Card(*numbers, type_, mode, geometries)))
    return named_cards(named)


# MIG instances: parts of a card with fixed sizes.


def free_instance(
    geometries: Sequence[Geometry], parts: Sequence[str], memory: int
) -> tuple[str, int] | None:
    """The smallest free instance with enough memory, as text of an annotation, and its memory.

    A card with instances in use keeps their geometry. Otherwise the first geometry with such an
    instance is used.
    """
    in_use = [_instance(part) for part in parts]
    groups = {instance[0] for instance in in_use if instance is not None}
    for geometry in geometries:
        if in_use and groups != {geometry.group}:
            continue
        found, start = [], 0
        for size, count in geometry.instances:
            positions = range(start, start + count)
            free = next((p for p in positions if (geometry.group, p) not in in_use), None)
            if free is not None and size >= memory:
                found.append((size, free))
            start += count
        if found:
            size, position = min(found)
            return f"[{geometry.group}-{position}]", size
    return None


def memory_of(geometries: Sequence[Geometry], part: str) -> int | None:
    """The memory of an instance; None: its geometry is not known."""
    instance = _instance(part)
    for geometry in geometries:
        if instance is not None and geometry.group == instance[0]:
            return geometry.memory_at(instance[1])
    return None


def _instance(part: str) -> tuple[str, int] | None:
    """Geometry and position of an instance, whose text is ``[group-3]``."""
    group, _, text = part.strip("[]").rpartition("-")
    position = parse_uint32(text)
    return None if position is None else (group, position)
