"""Matches a pattern against many names at once, with sets of names as bits of integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pumice.patterns.automata import (
    BEGINNING,
    END,
    MATCH,
    NO_WORD_BOUNDARY,
    START,
    WORD,
    WORD_BOUNDARY,
    Characters,
    Pattern,
    is_among,
)

Mask = NDArray[np.bool_]
# Kubernetes names are ASCII and at most this long. A pattern does not match other names.
MAX_NAME_LENGTH = 253


class Names:
    """An immutable sequence of names, indexed for matching."""

    def __init__(self, names: Sequence[str]) -> None:
        self.texts, self._count = tuple(names), len(names)
        self._positions = {name: number for number, name in enumerate(names)}
        usable = [n if len(n) <= MAX_NAME_LENGTH and n.isascii() else "" for n in names]
        lengths = np.array([len(name) for name in usable], dtype=np.int64)
        self._longest = int(lengths.max(initial=0))
        width = max(self._longest, 1)
        text = np.array([name.encode() for name in usable], dtype=f"S{width}")
        self._codes = text.view(np.uint8).reshape(self._count, width)
        # The names that end at each position, and those with each character at each position.
        self._ending = [_bits(lengths == i) for i in range(self._longest + 1)]
        self._going_on: list[dict[int, int] | None] = [None] * self._longest

    def equal_to(self, name: str) -> Mask:
        """The mask of the name itself; empty if it is not among these names."""
        mask = np.zeros(self._count, dtype=np.bool_)
        if name in self._positions:
            mask[self._positions[name]] = True
        return mask

    def matching(self, pattern: Pattern) -> Mask:
        """The mask of the names in which the pattern matches anywhere."""
        matches, active = 0, {START: 0}
        unfinished = (1 << self._count) - 1
        for position in range(self._longest + 1):
            active[START] = unfinished & ~matches
            reached = self._follow(pattern, active, position)
            matches |= reached.pop(MATCH, 0)
            unfinished &= ~self._ending[position]
            active = self._take(pattern, reached, position, ~matches)
        # Invalid names are represented as empty ones.
        return self._mask(matches & ~self._ending[0])

    def _follow(self, pattern: Pattern, active: dict[int, int], position: int) -> dict[int, int]:
        reached: dict[int, int] = {}
        holding: dict[int, int] = {}
        for state, names in active.items():
            for target, conditions in pattern.transitions[state]:
                now = names
                if conditions:
                    if conditions not in holding:
                        holding[conditions] = self._holding(conditions, position)
                    now &= holding[conditions]
                if now:
                    reached[target] = reached.get(target, 0) | now
        return reached

    def _take(
        self, pattern: Pattern, reached: dict[int, int], position: int, wanted: int
    ) -> dict[int, int]:
        having: dict[Characters, int] = {}
        active = {}
        for state, names in reached.items():
            taken = pattern.characters[state]
            if taken not in having:
                having[taken] = self._having(taken, position) & wanted
            if now := names & having[taken]:
                active[state] = now
        return active

    def _holding(self, conditions: int, position: int) -> int:
        """The names for which all conditions hold just before a position."""
        names = (1 << self._count) - 1
        if conditions & BEGINNING and position:
            return 0
        if conditions & END:
            names &= self._ending[position]
        boundary = self._having(WORD, position - 1) ^ self._having(WORD, position)
        if conditions & WORD_BOUNDARY:
            names &= boundary
        if conditions & NO_WORD_BOUNDARY:
            names &= ~boundary
        return names

    def _having(self, characters: Characters, position: int) -> int:
        """The names with one of these characters at a position."""
        if not 0 <= position < self._longest:
            return 0
        by_character = self._going_on[position]
        if by_character is None:
            column = self._codes[:, position]
            by_character = {c: _bits(column == c) for c in np.unique(column).tolist() if c}
            self._going_on[position] = by_character
        names = 0
        for character, bits in by_character.items():
            if is_among(character, characters):
                names |= bits
        return names

    def _mask(self, names: int) -> Mask:
        packed = np.frombuffer(names.to_bytes(self._count // 8 + 1, "little"), np.uint8)
        return np.unpackbits(packed, count=self._count, bitorder="little").astype(np.bool_)


def _bits(mask: Mask) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
