"""Regular expressions as automata, which match any pattern in linear time.

The syntax is that of RE2, as in Go's regexp, without Unicode classes, octal escapes, the flags m and
U, and flags after the beginning of a pattern or group. A pattern with one of these is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from string import ascii_letters
from typing import Any

MAX_PATTERN_LENGTH = 1_024
MAX_PATTERN_GROUPS = 50
MAX_PATTERN_REPEATS = 1_000
MAX_PATTERN_STATES = 2_000
MAX_PATTERN_TRANSITIONS = 10_000

# Conditions on a position between two characters, as bit flags.
BEGINNING, END, WORD_BOUNDARY, NO_WORD_BOUNDARY = 1, 2, 4, 8
START, MATCH = -1, 0

# Ranges of characters in ascending order, each with its first and last character.
Characters = tuple[tuple[int, int], ...]
_LAST_CHARACTER = 0x10FFFF


def is_among(character: int, characters: Characters) -> bool:
    return any(low <= character <= high for low, high in characters)


def _all_but(characters: Iterable[tuple[int, int]]) -> Characters:
    others, begin = [], 0
    for low, high in sorted(characters):
        if begin < low:
            others.append((begin, low - 1))
        begin = max(begin, high + 1)
    return (*others, (begin, _LAST_CHARACTER)) if begin <= _LAST_CHARACTER else tuple(others)


WORD = ((48, 57), (65, 90), (95, 95), (97, 122))
_DIGIT, _SPACE = ((48, 57),), ((9, 10), (12, 13), (32, 32))
_CATEGORIES: dict[Any, Characters] = {
    _constants.CATEGORY_DIGIT: _DIGIT,
    _constants.CATEGORY_NOT_DIGIT: _all_but(_DIGIT),
    _constants.CATEGORY_SPACE: _SPACE,
    _constants.CATEGORY_NOT_SPACE: _all_but(_SPACE),
    _constants.CATEGORY_WORD: WORD,
    _constants.CATEGORY_NOT_WORD: _all_but(WORD),
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
_UNSUPPORTED_FLAGS = re.MULTILINE | re.VERBOSE
# Parts that RE2 and Python write differently: quoted text, a character code, another escape, ``{,``
# (which is not a repeat), the name of a group, and a character class.
_RE2_PART = re.compile(
    r"\\Q.*?(?:\\E|$)|\\x\{[0-9A-Fa-f]{1,8}\}|\\.|\{,|\(\?<(?=\w+>)"
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]",
    re.DOTALL,
)
_CODE = re.compile(r"\\x\{([0-9A-Fa-f]{1,8})\}|\\.", re.DOTALL)
_POSIX_CLASS = re.compile(r"(?<!^)\[:(\^?)(\w+):\]")
_POSIX_CLASSES = {
    **{"alnum": "0-9A-Za-z", "alpha": "A-Za-z", "digit": "0-9", "lower": "a-z", "upper": "A-Z"},
    **{"punct": r"!-/:-@\[-`{-~", "space": r"\t-\r ", "word": r"\w", "xdigit": "0-9A-Fa-f"},
}


class PatternError(ValueError):
    """A pattern is too large or not supported."""


class Pattern:
    """An automaton: the characters of each state, and its transitions.

    A transition is a pair of a state and the conditions on the position between the characters.
    """

    def __init__(self, text: str) -> None:
        """Raises PatternError for an unsupported pattern, re.error for invalid syntax."""
        if len(text) > MAX_PATTERN_LENGTH:
            raise PatternError(
                f"has {len(text)} characters; at most {MAX_PATTERN_LENGTH} are allowed"
            )
        if text.count("(") > MAX_PATTERN_GROUPS:
            raise PatternError(f"has more than {MAX_PATTERN_GROUPS} groups, which is the limit")
        python = _RE2_PART.sub(_as_python, text)
        try:
            parsed = _parser.parse(python)
        except OverflowError:
            raise _too_often() from None
        except ValueError as error:
            raise re.error(str(error), text) from None
        # For each state, the characters that it consumes, or None, and its transitions.
        self._states: list[tuple[Characters | None, list[tuple[int, int]]]] = [(None, [])]
        self._transition_count = 0
        first = self._sequence(parsed, parsed.state.flags, MATCH)
        self.characters: dict[int, Characters] = {
            number: taken for number, (taken, _) in enumerate(self._states) if taken is not None
        }
        self.transitions = {START: self._closure(first)}
        for number in self.characters:
            self.transitions[number] = self._closure(self._states[number][1][0][0])

    def is_in(self, text: str) -> bool:
        """Whether any part of the text matches."""
        active: list[int] = []
        for position in range(len(text) + 1):
            missing = ~_holding(text, position)
            # A match may begin anywhere.
            reached = {
                target
                for state in (START, *active)
                for target, conditions in self.transitions[state]
                if not conditions & missing
            }
            if MATCH in reached:
                return True
            if position < len(text):
                code = ord(text[position])
                active = [state for state in reached if is_among(code, self.characters[state])]
        return False

    def _add(self, taken: Characters | None, leads_to: list[tuple[int, int]]) -> int:
        if len(self._states) >= MAX_PATTERN_STATES:
            raise PatternError(
                f"needs more than {MAX_PATTERN_STATES} states, which is the limit; "
                "use fewer or smaller counted repeats"
            )
        self._states.append((taken, leads_to))
        return len(self._states) - 1

    def _count_transition(self) -> None:
        self._transition_count += 1
        if self._transition_count > MAX_PATTERN_TRANSITIONS:
            raise PatternError(
                f"needs more than {MAX_PATTERN_TRANSITIONS} transitions, which is the limit; "
                "use fewer optional parts and alternatives"
            )

    def _sequence(self, items: Iterable[Any], flags: int, then: int) -> int:
        """Adds states for parts of a pattern, the last part first; returns the first state."""
        self._count_transition()
        if flags & _UNSUPPORTED_FLAGS:
            raise PatternError("has the flag m or x; only i and s are allowed")
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
        """Transitions to the consuming states, and to the match, that need no character."""
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
    return PatternError(f"repeats more than {MAX_PATTERN_REPEATS} times, which is the limit")


def _as_python(part: re.Match[str]) -> str:
    """Converts a part of an RE2 pattern to Python's syntax."""
    text = part.group()
    if text[0] == "[":
        return _CODE.sub(_code, _POSIX_CLASS.sub(_posix_class, text))
    if text.startswith(r"\Q"):
        return re.escape(text.removeprefix(r"\Q").removesuffix(r"\E"))
    if text.startswith(r"\x{"):
        return _CODE.sub(_code, text)
    return {r"\z": r"\Z", "{,": r"\{,", "(?<": "(?P<"}.get(text, text)


def _code(found: re.Match[str]) -> str:
    """Converts a character code; returns any other escape unchanged."""
    if not found[1]:
        return found[0]
    number = int(found[1], 16)
    if number > _LAST_CHARACTER:
        raise PatternError(f"has the invalid character code {found[0]}")
    return rf"\U{number:08x}"


def _posix_class(found: re.Match[str]) -> str:
    inside = _POSIX_CLASSES.get(found[2])
    if inside is None:
        raise PatternError(f"has an unknown class [:{found[2]}:]")
    if not found[1]:
        return inside
    ((kind, value),) = _parser.parse(f"[^{inside}]")
    return "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in _characters(kind, value, 0))


def _holding(text: str, position: int) -> int:
    """The conditions that hold just before a position of a text."""
    before = position > 0 and is_among(ord(text[position - 1]), WORD)
    after = position < len(text) and is_among(ord(text[position]), WORD)
    boundary = WORD_BOUNDARY if before != after else NO_WORD_BOUNDARY
    return boundary | (0 if position else BEGINNING) | (END if position == len(text) else 0)


def _characters(kind: Any, value: Any, flags: int) -> Characters:
    """The characters that a part of a pattern matches."""
    if kind is _constants.ANY:
        return _all_but(() if flags & re.DOTALL else ((10, 10),))
    if kind not in (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN):
        raise PatternError(
            "has a lookaround, a backreference or a possessive repeat; "
            "characters, classes, groups, alternatives, repeats, ^, $, \\b and \\B are allowed"
        )
    items = value if kind is _constants.IN else [(_constants.LITERAL, value)]
    taken: list[tuple[int, int]] = []
    for each, what in items:
        if each is _constants.LITERAL:
            taken.append((what, what))
        elif each is _constants.RANGE:
            taken.append(what)
        elif each is _constants.CATEGORY:
            taken += _CATEGORIES[what]
    if flags & re.IGNORECASE:
        letters = [c for c in ascii_letters if is_among(ord(c.swapcase()), tuple(taken))]
        taken += [(ord(c), ord(c)) for c in letters]
    excluded = kind is _constants.NOT_LITERAL or items[0][0] is _constants.NEGATE
    return _all_but(taken if excluded else _all_but(taken))
