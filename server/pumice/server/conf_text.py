"""The text of a scheduler configuration as plain data, with the line of every part of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

Path = tuple[str | int, ...]

# libyaml reads the same language, an order of magnitude faster.
_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_TEXT_BYTES = 1024 * 1024
# No real file is deeper; a hostile one could exhaust the stack.
_DEEPEST = 40


class ConfTextError(ValueError):
    """A text that is no YAML we would read."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ConfText:
    """Parsed text: its data, and where in the text each path of the data stands."""

    data: object
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """The line of a path, or of the nearest thing around it; 0: of none."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


def parse(text: str) -> ConfText:
    """Reads YAML. Anchors are refused: with them a small text can mean a huge one."""
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise ConfTextError(0, f"is over {MAX_TEXT_BYTES} bytes")
    try:
        return _parsed(text, _FAST)
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, ConfTextError):
            raise
        # The slow one says better what is wrong, and where.
        return _parsed_or_told(text)


def _parsed_or_told(text: str) -> ConfText:
    try:
        return _parsed(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        raise ConfTextError(line, f"is no valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, ConfTextError):
            raise
        raise ConfTextError(0, f"is no valid YAML: {error}") from error


def _parsed(text: str, loader: Any) -> ConfText:
    _check_events(text, loader)
    node = yaml.compose(text, Loader=loader)
    if node is None:
        return ConfText(None, {})
    _check_keys(node)
    return ConfText(yaml.load(text, Loader=loader), dict(_lines(node, ())))


def _check_events(text: str, loader: Any) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise ConfTextError(line, "uses an alias (*name); write the part out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise ConfTextError(line, f"is nested more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_keys(node: yaml.Node) -> None:
    """Of two equal keys YAML would keep the last, and nobody would see what the first one said."""
    if isinstance(node, yaml.MappingNode):
        first: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                name = (key.tag, key.value)
                if name in first:
                    problem = f"has {key.value!r} twice, first on line {first[name]}; keep one"
                    raise ConfTextError(line, problem)
                first[name] = line
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item)


def _lines(node: yaml.Node, path: Path) -> Iterator[tuple[Path, int]]:
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield from _lines(value, inner)
            # The key is what people look for, also when its value begins a line below.
            yield inner, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _lines(item, (*path, number))
