"""Regular expressions for names, as automata: matching takes linear time whatever the pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

MAX_PATTERN_LENGTH = 1_024
MAX_PATTERN_GROUPS = 50
MAX_PATTERN_REPEATS = 1_000
MAX_PATTERN_STATES = 2_000
MAX_PATTERN_TRANSITIONS = 10_000

# What holds at a position between two characters; combined as bits.
BEGINNING, END, WORD_BOUNDARY, NO_WORD_BOUNDARY = 1, 2, 4, 8
START, MATCH = -1, 0

Characters = frozenset[int]
_ASCII: Characters = frozenset(range(128))


def _ascii(expression: str) -> Characters:
    return frozenset(c for c in _ASCII if re.fullmatch(expression, chr(c), re.ASCII))


WORD = _ascii(r"\w")
_CATEGORIES: dict[Any, Characters] = {
    _constants.CATEGORY_DIGIT: _ascii(r"\d"),
    _constants.CATEGORY_NOT_DIGIT: _ascii(r"\D"),
    _constants.CATEGORY_SPACE: _ascii(r"\s"),
    _constants.CATEGORY_NOT_SPACE: _ascii(r"\S"),
    _constants.CATEGORY_WORD: WORD,
    _constants.CATEGORY_NOT_WORD: _ascii(r"\W"),
}
_CONDITIONS: dict[Any, int] = {
    _constants.AT_BEGINNING: BEGINNING,
    _constants.AT_BEGINNING_STRING: BEGINNING,
    _constants.AT_END: END,
    _constants.AT_END_STRING: END,
    _constants.AT_BOUNDARY: WORD_BOUNDARY,
    _constants.AT_NON_BOUNDARY: NO_WORD_BOUNDARY,
}
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)


class PatternError(ValueError):
    """A pattern that is too large, or that cannot be matched in linear time."""


class Pattern:
    """An automaton: the characters of each state, and the states that may follow it.

    Transitions are pairs of a state and the conditions that must hold between the characters.
    """

    def __init__(self, text: str) -> None:
        """Raises PatternError for a pattern that is not allowed, re.error for invalid syntax."""
        if len(text) > MAX_PATTERN_LENGTH:
            raise PatternError(
                f"has {len(text)} characters; at most {MAX_PATTERN_LENGTH} are allowed"
            )
        if text.count("(") > MAX_PATTERN_GROUPS:
            raise PatternError(
                f"has more than {MAX_PATTERN_GROUPS} groups, which are the most allowed"
            )
        if "[:" in text and ":]" in text:
            raise PatternError(
                "has a POSIX class such as [:digit:]; write out the characters: [0-9]"
            )
        try:
            parsed = _parser.parse(text)
        except OverflowError:
            raise _too_often() from None
        except ValueError as error:
            raise re.error(str(error), text) from None
        # By state: the characters it takes, or None, and where it leads, under which conditions.
        self._states: list[tuple[Characters | None, list[tuple[int, int]]]] = [(None, [])]
        self._transition_count = 0
        first = self._sequence(parsed, parsed.state.flags, MATCH)
        self.characters: dict[int, Characters] = {
            number: taken for number, (taken, _) in enumerate(self._states) if taken is not None
        }
        self.transitions = {START: self._closure(first)}
        for number in self.characters:
            self.transitions[number] = self._closure(self._states[number][1][0][0])

    def _add(self, taken: Characters | None, leads_to: list[tuple[int, int]]) -> int:
        if len(self._states) >= MAX_PATTERN_STATES:
            raise PatternError(
                f"needs more than {MAX_PATTERN_STATES} states, which are the most allowed; "
                "use fewer or smaller counted repeats"
            )
        self._states.append((taken, leads_to))
        return len(self._states) - 1

    def _count_transition(self) -> None:
        self._transition_count += 1
        if self._transition_count > MAX_PATTERN_TRANSITIONS:
            raise PatternError(
                f"needs more than {MAX_PATTERN_TRANSITIONS} transitions, which are the most "
                "allowed; use fewer optional parts and alternatives"
            )

    def _sequence(self, items: Iterable[Any], flags: int, then: int) -> int:
        """Adds states for parts of a pattern, the last one first; returns the state to begin with."""
        self._count_transition()
        for kind, value in reversed(list(items)):
            then = self._part(kind, value, flags, then)
        return then

    def _part(self, kind: Any, value: Any, flags: int, then: int) -> int:
        if kind is _constants.AT:
            return self._add(None, [(then, _CONDITIONS[value])])
        if kind is _constants.BRANCH:
            return self._add(None, [(self._sequence(each, flags, then), 0) for each in value[1]])
        if kind is _constants.SUBPATTERN:
            _, added, removed, items = value
            return self._sequence(items, (flags | added) & ~removed, then)
        if kind in _REPEATS:
            least, most, items = value
            return self._repeat(least, most, items, flags, then)
        return self._add(_characters(kind, value, flags), [(then, 0)])

    def _repeat(self, least: int, most: int, items: Iterable[Any], flags: int, then: int) -> int:
        items, unlimited = list(items), most == _constants.MAXREPEAT
        if max(least, 0 if unlimited else most) > MAX_PATTERN_REPEATS:
            raise _too_often()
        end = then
        if unlimited:
            leads_to = [(end, 0)]
            then = self._add(None, leads_to)
            leads_to.append((self._sequence(items, flags, then), 0))
        else:
            for _ in range(most - least):
                then = self._add(None, [(self._sequence(items, flags, then), 0), (end, 0)])
        for _ in range(least):
            then = self._add(None, [(self._sequence(items, flags, then), 0)])
        return then

    def _closure(self, first: int) -> list[tuple[int, int]]:
        """The states that take a character, and the match, that can be reached without one."""
        transitions, seen, open_ = [], {(first, 0)}, [(first, 0)]
        while open_:
            number, conditions = open_.pop()
            self._count_transition()
            taken, leads_to = self._states[number]
            if taken is not None or number == MATCH:
                transitions.append((number, conditions))
                continue
            following = {(state, conditions | more) for state, more in leads_to} - seen
            seen |= following
            open_ += sorted(following)
        return transitions


def _too_often() -> PatternError:
    return PatternError(
        f"repeats more than {MAX_PATTERN_REPEATS} times, which are the most allowed"
    )


def _characters(kind: Any, value: Any, flags: int) -> Characters:
    """The ASCII characters that a part of a pattern stands for."""
    if kind is _constants.ANY:
        return _ASCII
    if kind not in (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN):
        raise PatternError(
            "looks around, refers back to a group or is possessive; "
            "allowed are characters, classes, groups, alternatives, repeats, ^, $, \\b and \\B"
        )
    items = value if kind is _constants.IN else [(_constants.LITERAL, value)]
    taken: set[int] = set()
    for each, what in items:
        if each is _constants.LITERAL:
            taken.add(what)
        elif each is _constants.RANGE:
            taken.update(_ASCII.intersection(range(what[0], what[1] + 1)))
        elif each is _constants.CATEGORY:
            taken |= _CATEGORIES[what]
    if flags & re.IGNORECASE:
        taken |= {ord(c) for c in map(str.swapcase, map(chr, taken)) if len(c) == 1}
    excluded = kind is _constants.NOT_LITERAL or items[0][0] is _constants.NEGATE
    return _ASCII - taken if excluded else _ASCII & taken
