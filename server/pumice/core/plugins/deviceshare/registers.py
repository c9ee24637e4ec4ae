"""The cards that a vGPU device plugin registers in an annotation of its node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pumice.core.plugins.deviceshare.cards import plain_int

HAMI_CORE = "hami-core"
_FIELDS = 6
# A register with more cards is not read.
MOST_CARDS = 1024


class Card(NamedTuple):
    """One card: how many pods may share it, its memory, type, and sharing mode."""

    most_pods: int
    memory: int
    type: str
    mode: str = HAMI_CORE


@dataclass(frozen=True, slots=True)
class Register:
    """The cards of a node and their names, in the order of the annotation."""

    cards: tuple[Card, ...]
    names: tuple[str, ...]
    # Positions of the cards by name.
    places: Mapping[str, int] = field(compare=False)


@lru_cache(maxsize=16_384)
def read_register(text: str) -> Register | None:
    """The cards in an annotation; None where there are none, or one has too few fields.

    A number that cannot be read counts as 0. All cards are shared by hami-core: MIG needs a
    geometry, and Volcano falls back to hami-core where it knows none.
    """
    parts = [part.split(",") for part in text.split(":") if "," in part]
    if ":" not in text or not parts or len(parts) > MOST_CARDS:
        return None
    if any(len(fields) < _FIELDS for fields in parts):
        return None
    cards = tuple(
        Card(plain_int(fields[1]) or 0, plain_int(fields[2]) or 0, fields[3]) for fields in parts
    )
    names = tuple(fields[0] for fields in parts)
    places = {name: place for place, name in enumerate(names)}
    return Register(cards, names, places) if len(places) == len(names) else None
