"""Parses objects from YAML and JSON text, with their file and line.

A file is split at its document markers before it is parsed, so an invalid document does not affect
the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec
import yaml

from pumice.manifests.errors import ManifestError

_BaseLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DOCUMENT_MARK: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_BYTE_OFFSET: Final = re.compile(r" \(byte (\d+)\)")
# The parser expands aliases, so the size of the expanded document is limited.
_MOST_NODES: Final = 2_000_000
# Deep nesting crashes the YAML library and the process, so the depth is checked first.
_DEEPEST: Final = 200
_DEEPEST_LIST: Final = 16
_INDENTATION: Final = re.compile(r"^[-?: \t]*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Origin:
    """The workload that an object was generated from."""

    kind: str
    # ``namespace/name``.
    name: str
    # The field of the workload that contains the object; empty for the workload itself.
    field: str
    # The PodGroup, as ``namespace/name``.
    job: str


@dataclass(frozen=True, slots=True)
class Document:
    """An object with its file and line."""

    body: Mapping[str, Any]
    source: str
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """An assumption about an object, with its file and field."""

    source: str
    kind: str
    # ``namespace/name``.
    name: str
    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.kind} {self.name}: {self.field}: {self.text}"


def parse(text: str | bytes, source: str) -> Iterator[Document | ManifestError]:
    """The objects of a file, including the items of lists, without empty documents."""
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        yield ManifestError(f"is not UTF-8 text (byte {error.start})", source=source)
        return
    if text.lstrip()[:1] in {"{", "["}:
        try:
            body = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            # YAML allows braces, too, with a more liberal syntax in them.
            if source.endswith(".json") or not _is_yaml(text):
                yield _json_error(error, text, source)
                return
        else:
            yield from unfold(body, source)
            return
    yield from _parse_yaml(text, source)


def _is_yaml(text: str) -> bool:
    try:
        return all(True for _ in _load(text))
    except (yaml.YAMLError, _ExcessError):
        return False


def _json_error(error: Exception, text: str, source: str) -> ManifestError:
    if isinstance(error, RecursionError):
        return ManifestError("is nested too deeply", source=source)
    message = str(error)
    offset = _BYTE_OFFSET.search(message)
    if offset is not None:
        line = text.encode()[: int(offset[1])].count(b"\n") + 1
        source = f"{source}:{line}"
        message = message.replace(offset[0], "")
    return ManifestError(message, source=source)


def _parse_yaml(text: str, source: str) -> Iterator[Document | ManifestError]:
    starts = [0, *(mark.start() for mark in _DOCUMENT_MARK.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        line = text.count("\n", 0, start)
        chunk = text[start:end]
        if not chunk.strip():
            continue
        try:
            bodies = list(_load(chunk))
        except yaml.YAMLError as error:
            yield _yaml_error(error, source, line)
        except _ExcessError as error:
            yield ManifestError(str(error), source=f"{source}:{line + 1}")
        else:
            for body, body_line in bodies:
                yield from unfold(body, f"{source}:{line + body_line + 1}")


def _yaml_error(error: yaml.YAMLError, source: str, line: int) -> ManifestError:
    problem = str(error).splitlines()[0]
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line += 0 if mark is None else mark.line
        problem = error.problem or problem
    return ManifestError(f"invalid YAML: {problem}", source=f"{source}:{line + 1}")


def unfold(body: Any, source: str, depth: int = 0) -> Iterator[Document | ManifestError]:
    """The objects of a document: the document itself, or the items of a list, recursively."""
    if body is None:
        return
    if depth > _DEEPEST_LIST:
        yield ManifestError("lists are nested too deeply", source=source)
        return
    if isinstance(body, list):
        for index, item in enumerate(body):
            yield from unfold(item, f"{source}[{index}]", depth + 1)
        return
    if not isinstance(body, Mapping):
        problem = f"{type(body).__name__} given where an object was expected"
        yield ManifestError(problem, source=source, allowed="an object with apiVersion and kind")
        return
    kind = body.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and "items" in body:
        yield from _items(body, kind.removesuffix("List"), source, depth)
        return
    yield Document(body, source)


def _items(
    body: Mapping[str, Any], kind: str, source: str, depth: int
) -> Iterator[Document | ManifestError]:
    items = body["items"]
    if items is not None and not isinstance(items, list):
        yield ManifestError("is not a list", source=source, kind=f"{kind}List", field="items")
        return
    for index, item in enumerate(items or ()):
        # API servers omit kind and version of the items of a list.
        inherited = {"apiVersion": body.get("apiVersion"), "kind": kind} if kind else {}
        whole = {**inherited, **item} if isinstance(item, Mapping) else item
        yield from unfold(whole, f"{source} items[{index}]", depth + 1)


class _ExcessError(Exception):
    """A document is too deeply nested or too large."""


class _Loader(_BaseLoader):  # type: ignore[misc]
    """YAML as Kubernetes reads it: times are text, numbers with colons are text, keys are unique."""

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        value = float(super().construct_yaml_float(node))
        if not math.isfinite(value):
            raise yaml.constructor.ConstructorError(
                None, None, f"the number {node.value} is too large", node.start_mark
            )
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is given twice", key.start_mark
                    )
                seen.add(key.value)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)")
# Without infinity and NaN, which JSON does not have.
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)"
)
_REPLACED: Final = {
    "tag:yaml.org,2002:timestamp": None,
    "tag:yaml.org,2002:int": re.compile(f"^(?:{_INTEGER.pattern})$"),
    "tag:yaml.org,2002:float": re.compile(f"^(?:{_FLOAT.pattern})$"),
}
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, _REPLACED.get(tag, pattern))
        for tag, pattern in resolvers
        if _REPLACED.get(tag, pattern) is not None
    ]
    for first, resolvers in _BaseLoader.yaml_implicit_resolvers.items()
}


def _load(text: str) -> Iterator[tuple[Any, int]]:
    if _could_be_deep(text) and _is_deep(text):
        raise _ExcessError("is nested too deeply")
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if "*" in text and _expanded_size(node, {}) > _MOST_NODES:
                raise _ExcessError(f"aliases make it larger than {_MOST_NODES} values")
            yield loader.construct_document(node), node.start_mark.line
    finally:
        loader.dispose()


def _could_be_deep(text: str) -> bool:
    """A fast check that rules out deep nesting for most documents."""
    if text.count("[") + text.count("{") > _DEEPEST:
        return True
    return any(len(found[0]) > _DEEPEST for found in _INDENTATION.finditer(text))


def _is_deep(text: str) -> bool:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            # Return early: the library's time is quadratic in the depth.
            if depth > _DEEPEST:
                return True
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return False


def _expanded_size(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values of a document with all aliases expanded."""
    size = known.get(id(node))
    if size is None:
        # A node that contains itself expands without end.
        known[id(node)] = _MOST_NODES + 1
        size = 1
        if isinstance(node, yaml.SequenceNode):
            size += sum(_expanded_size(item, known) for item in node.value)
        elif isinstance(node, yaml.MappingNode):
            size += sum(_expanded_size(part, known) for pair in node.value for part in pair)
        known[id(node)] = size
    return size
