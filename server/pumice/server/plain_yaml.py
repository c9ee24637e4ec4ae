"""Reads YAML with plain scalars, lists and mappings, and the line of each value.

Tags, aliases, directives, base-60 numbers and timestamps are refused: with them a small text can
cost much time or memory, or raise unexpected errors. Size, depth, the number of values and the
length of numbers are limited, so any text is read or refused in a fraction of a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

Path = tuple[str | int, ...]

# libyaml reads the same language ten times faster.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_TEXT_BYTES = 1024 * 1024
MAX_DEPTH = 40
# Number of keys and values; a long configuration has a few hundred.
MAX_NODES = 5_000
MAX_NUMBER_LENGTH = 64

_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
# The words of YAML 1.1, which Volcano's reader also accepts.
_TRUE = frozenset(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"))
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*[eE][-+]?[0-9]+)"
)
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"0b": 2, "0x": 16}


class YamlTextError(ValueError):
    """A text that cannot be read; ``line`` is 0 if it is unknown."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class YamlText:
    """The data of a text, and the line of each path in the data."""

    data: object
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """The line of a path, or of the nearest enclosing path; 0: unknown."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been reached."""

    value: list[object] | dict[object, object]
    path: Path
    # For a mapping: the key whose value comes next, and the lines of the keys so far.
    key: object = None
    has_key: bool = False
    key_lines: dict[object, int] = field(default_factory=dict)


def parse(text: str) -> YamlText:
    """Raises YamlTextError for every text that cannot be read, and no other error."""
    size = len(text.encode(errors="replace"))
    if size > MAX_TEXT_BYTES:
        raise YamlTextError(0, f"has {size} bytes; at most {MAX_TEXT_BYTES} are allowed")
    directive = _DIRECTIVE.search(text)
    if directive is not None:
        # libyaml compares every %TAG with all earlier ones, which takes long for many.
        line = text.count("\n", 0, directive.start()) + 1
        raise YamlTextError(line, "directives (lines that begin with %) are not allowed")
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.add(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of the text, libyaml names the line after the last one.
        last = len(text.splitlines()) or 1
        line = min(mark.line + 1, last) if mark is not None else 0
        raise YamlTextError(line, f"invalid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise YamlTextError(0, f"invalid YAML: {str(error).splitlines()[0]}") from None
    return YamlText(builder.data, builder.lines)


class _Builder:
    """Builds the data from the events of the parser."""

    def __init__(self) -> None:
        self.data: object = None
        self.lines: dict[Path, int] = {}
        self._open: list[_Open] = []
        self._nodes = 0
        self._documents = 0

    def add(self, event: Any) -> None:
        line = event.start_mark.line + 1
        match event:
            case yaml.AliasEvent():
                raise YamlTextError(line, "aliases (*name) are not allowed; repeat the value")
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise YamlTextError(line, "a second document begins; only one is allowed")
            case yaml.ScalarEvent() | yaml.CollectionStartEvent():
                self._check_node(event, line)
                self._node(event, line)
            case yaml.CollectionEndEvent():
                self._open.pop()

    def _check_node(self, event: Any, line: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise YamlTextError(line, f"has more than {MAX_NODES} keys and values")
        if event.tag is not None:
            raise YamlTextError(line, f"tags ({event.tag}) are not allowed; use a plain value")

    def _node(self, event: Any, line: int) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._place(_scalar(event, line), line)
            return
        value: list[object] | dict[object, object] = (
            [] if isinstance(event, yaml.SequenceStartEvent) else {}
        )
        path = self._place(value, line)
        if len(self._open) >= MAX_DEPTH:
            raise YamlTextError(line, f"is nested more than {MAX_DEPTH} levels deep")
        self._open.append(_Open(value, path))

    def _place(self, value: object, line: int) -> Path:
        """Adds a value to the innermost open list or mapping; returns its path."""
        if not self._open:
            self.data = value
            self.lines[()] = line
            return ()
        parent = self._open[-1]
        if isinstance(parent.value, list):
            path: Path = (*parent.path, len(parent.value))
            parent.value.append(value)
            self.lines[path] = line
            return path
        if parent.has_key:
            parent.value[parent.key] = value
            parent.has_key = False
            return (*parent.path, str(parent.key))
        return self._place_key(parent, value, line)

    def _place_key(self, parent: _Open, key: object, line: int) -> Path:
        if isinstance(key, list | dict):
            raise YamlTextError(line, "a key must be a plain value, not a list or mapping")
        # 1 and True are equal in Python, but different keys here.
        known = (type(key), key)
        if known in parent.key_lines:
            first = parent.key_lines[known]
            raise YamlTextError(line, f"the key {key!r} occurs twice, first on line {first}")
        parent.key_lines[known] = line
        parent.key, parent.has_key = key, True
        path = (*parent.path, str(key))
        # The line of the key, even if the value begins on a later line.
        self.lines[path] = line
        return path


def _scalar(event: Any, line: int) -> object:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in "+-.0123456789":
        return text
    return _number(text, line)


def _number(text: str, line: int) -> object:
    special = _SPECIAL.fullmatch(text)
    if special is not None:
        return float(text.replace(".", "").lower())
    is_integer = _INTEGER.fullmatch(text) is not None
    if not is_integer and _FLOAT.fullmatch(text) is None:
        return text
    if len(text) > MAX_NUMBER_LENGTH:
        raise YamlTextError(line, f"has a number with more than {MAX_NUMBER_LENGTH} characters")
    digits = text.replace("_", "")
    if not is_integer:
        return float(digits)
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
    base = _BASES.get(digits[:2], 8 if digits != "0" and digits[0] == "0" else 10)
    body = digits[2:] if base in (2, 16) else digits
    return sign * int(body, base) if body else text
