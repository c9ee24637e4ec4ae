"""Regular expressions of ``matches``: whether a text has a part that a pattern describes.

The syntax is that of RE2, without flags, named groups and Unicode classes, which are refused. Texts
are matched by following all states at once, so that no pattern takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from pumice.core.cel.errors import CelError

# States of one pattern; repetitions are written out.
MAX_STATES = 4_000
# How often a part may be repeated, as in RE2.
MAX_REPEATS = 1_000
_MAX_NESTING = 100

Test = Callable[[str], bool]
# Positions: the text, the place in it.
Assertion = Callable[[str, int], bool]


@dataclass(slots=True)
class _State:
    """A state: a test that a character must pass, an assertion, or only a way on."""

    number: int
    test: Test | None = None
    assertion: Assertion | None = None
    after: list[_State] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """A piece of a pattern: where it begins and where it ends."""

    first: _State
    last: _State


class Pattern:
    """A pattern that was read."""

    def __init__(self, text: str) -> None:
        self._reader = _Reader(text)
        self._part = self._reader.whole()

    def is_in(self, text: str) -> bool:
        """Whether some part of the text matches."""
        current: dict[int, _State] = {}
        for place in range(len(text) + 1):
            # A match may begin anywhere.
            self._add(current, self._part.first, text, place)
            if self._part.last.number in current:
                return True
            if place == len(text):
                break
            letter = text[place]
            following: dict[int, _State] = {}
            for state in current.values():
                if state.test is not None and state.test(letter):
                    for after in state.after:
                        self._add(following, after, text, place + 1)
            current = following
        return False

    @staticmethod
    def _add(states: dict[int, _State], state: _State, text: str, place: int) -> None:
        """Adds a state with all that follow without a character."""
        waiting = [state]
        while waiting:
            state = waiting.pop()
            if state.number in states:
                continue
            if state.assertion is not None and not state.assertion(text, place):
                continue
            states[state.number] = state
            if state.test is None:
                waiting += state.after


@lru_cache(maxsize=1_000)
def pattern(text: str) -> Pattern:
    """Raises CelError where the pattern is wrong or not supported."""
    return Pattern(text)


def _is_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and _CLASSES["w"](text[place])


def _at_boundary(text: str, place: int) -> bool:
    return _is_word(text, place - 1) != _is_word(text, place)


_CLASSES: dict[str, Test] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c.isascii() and (c.isalnum() or c == "_"),
    "s": lambda c: c in "\t\n\f\r ",
}
_CLASSES |= {
    "D": lambda c: not _CLASSES["d"](c),
    "W": lambda c: not _CLASSES["w"](c),
    "S": lambda c: not _CLASSES["s"](c),
}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ASSERTIONS: dict[str, Assertion] = {
    "^": lambda _text, place: place == 0,
    "$": lambda text, place: place == len(text),
    "A": lambda _text, place: place == 0,
    "z": lambda text, place: place == len(text),
    "b": _at_boundary,
    "B": lambda text, place: not _at_boundary(text, place),
}
_NAMED: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "digit": _CLASSES["d"],
    "lower": lambda c: "a" <= c <= "z",
    "upper": lambda c: "A" <= c <= "Z",
    "space": lambda c: c in "\t\n\v\f\r ",
    "word": _CLASSES["w"],
    "punct": lambda c: c.isascii() and c.isprintable() and not c.isalnum() and c != " ",
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._place, self._states, self._nesting = text, 0, 0, 0

    def whole(self) -> _Part:
        part = self._alternatives()
        if self._place < len(self._text):
            raise self._wrong("unexpected )")
        return part

    def _wrong(self, what: str) -> CelError:
        return CelError(f"the pattern {self._text!r} cannot be used: {what} at {self._place}")

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]

    def _next(self) -> str:
        letter = self._peek()
        if not letter:
            raise self._wrong("it ends too early")
        self._place += 1
        return letter

    def _takes(self, text: str) -> bool:
        if not self._text.startswith(text, self._place):
            return False
        self._place += len(text)
        return True

    def _state(self, test: Test | None = None, assertion: Assertion | None = None) -> _State:
        self._states += 1
        if self._states > MAX_STATES:
            raise self._wrong(f"it has more than {MAX_STATES} states")
        return _State(self._states, test, assertion)

    def _empty(self) -> _Part:
        state = self._state()
        return _Part(state, state)

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        first, last = self._state(), self._state()
        for part in parts:
            first.after.append(part.first)
            part.last.after.append(last)
        return _Part(first, last)

    def _sequence(self) -> _Part:
        whole = self._empty()
        while self._peek() not in ("", "|", ")"):
            part = self._repeated()
            whole.last.after.append(part.first)
            whole.last = part.last
        return whole

    # Repetitions.

    def _repeated(self) -> _Part:
        begin = self._place
        part = self._single()
        counts = self._counts()
        if counts is None:
            return part
        # A lazy repetition matches where a greedy one does.
        self._takes("?")
        end = self._place
        if self._counts() is not None:
            raise self._wrong("a repetition is repeated")
        found = self._times(begin, *counts)
        self._place = end
        return found

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return counts
        close = self._text.find("}", self._place)
        if self._peek() != "{" or close < 0:
            return None
        low, comma, high = self._text[self._place + 1 : close].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None
        self._place = close + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > MAX_REPEATS or (most is not None and most < least):
            raise self._wrong("a repetition is out of range")
        return least, most

    def _times(self, begin: int, least: int, most: int | None) -> _Part:
        """The part that begins there, so often; it is read again for each time."""
        whole = self._empty()
        for _ in range(least):
            self._append(whole, begin)
        if most is None:
            self._place = begin
            loop = self._single()
            last = self._state()
            whole.last.after += [loop.first, last]
            loop.last.after += [loop.first, last]
            whole.last = last
            return whole
        ends = [whole.last]
        for _ in range(most - least):
            self._append(whole, begin)
            ends.append(whole.last)
        last = self._state()
        for end in ends:
            end.after.append(last)
        whole.last = last
        return whole

    def _append(self, whole: _Part, begin: int) -> None:
        self._place = begin
        part = self._single()
        whole.last.after.append(part.first)
        whole.last = part.last

    # One character, assertion or group.

    def _single(self) -> _Part:
        letter = self._next()
        if letter == "(":
            return self._group()
        if letter in "*+?":
            raise self._wrong("there is nothing to repeat")
        if letter in "^$":
            return self._one(assertion=_ASSERTIONS[letter])
        if letter == ".":
            return self._one(lambda c: c != "\n")
        if letter == "[":
            return self._one(self._set())
        if letter == "\\":
            return self._escaped()
        return self._one(lambda c: c == letter)

    def _one(self, test: Test | None = None, assertion: Assertion | None = None) -> _Part:
        state = self._state(test, assertion)
        last = self._state()
        state.after.append(last)
        return _Part(state, last)

    def _group(self) -> _Part:
        if self._takes("?") and not self._takes(":"):
            raise self._wrong("flags and named groups are not supported")
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self._wrong(f"it is nested more than {_MAX_NESTING} deep")
        part = self._alternatives()
        self._nesting -= 1
        if not self._takes(")"):
            raise self._wrong("a ) is missing")
        return part

    def _escaped(self) -> _Part:
        letter = self._next()
        if letter in _CLASSES:
            return self._one(_CLASSES[letter])
        if letter in _ASSERTIONS and letter.isalpha():
            return self._one(assertion=_ASSERTIONS[letter])
        meant = self._letter(letter)
        return self._one(lambda c: c == meant)

    def _letter(self, letter: str) -> str:
        """The character that an escape stands for."""
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter.isascii() and letter.isalnum():
            raise self._wrong(f"\\{letter} is not supported")
        return letter

    def _set(self) -> Test:
        negated = self._takes("^")
        tests: list[Test] = []
        while not tests or self._peek() != "]":
            tests.append(self._set_item())
        self._next()
        return lambda c: any(test(c) for test in tests) != negated

    def _set_item(self) -> Test:
        if self._takes("[:"):
            name, end, rest = self._text[self._place :].partition(":]")
            negated, name = name.startswith("^"), name.removeprefix("^")
            if not end or name not in _NAMED:
                raise self._wrong("there is no such class")
            self._place = len(self._text) - len(rest)
            named = _NAMED[name]
            return lambda c: named(c) != negated
        low = self._next()
        if low == "\\":
            low = self._next()
            if low in _CLASSES:
                return _CLASSES[low]
            low = self._letter(low)
        high = low
        if self._peek() == "-" and self._text[self._place + 1 : self._place + 2] not in ("", "]"):
            self._next()
            high = self._next()
            high = self._letter(self._next()) if high == "\\" else high
            if high < low:
                raise self._wrong("a range of characters is the wrong way round")
        return lambda c: low <= c <= high


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5
