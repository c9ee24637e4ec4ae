"""Replaces enum values that this core does not know, because the adapter is newer.

An object is not rejected because of such a value. The value becomes the enum's UNKNOWN if there is
one, and otherwise unspecified. A taint or toleration with an unknown value has no effect, as in
Kubernetes. A pod with an unknown operator in a selector fits no node, so it is not placed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.message import Message

from pumice.v1 import pod_pb2, selector_pb2

# Types of list elements that are removed as a whole.
_REMOVED = (selector_pb2.Taint.DESCRIPTOR, selector_pb2.Toleration.DESCRIPTOR)
_OPERATOR = selector_pb2.Operator.DESCRIPTOR


class UnknownValue(NamedTuple):
    """A field with a value that this core does not know."""

    field: str
    problem: str


def replace_unknown_values(message: Message) -> list[UnknownValue]:
    """Replaces all unknown values in a message; returns the replaced fields."""
    found = list(_walk(message, ""))
    if isinstance(message, pod_pb2.Pod):
        _fit_no_node(message, found)
    return [UnknownValue(path, problem) for path, problem, _ in found]


def _walk(message: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    for field, value in message.ListFields():
        where = f"{path}.{field.name}" if path else field.name
        if field.enum_type is not None:
            yield from _enum(message, field, value, where)
        elif field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        elif field.is_repeated:
            yield from _elements(value, field, where)
        else:
            yield from _walk(value, where)


def _enum(message: Any, field: Any, value: Any, where: str) -> Iterator[tuple[str, str, Any]]:
    known, replacement = field.enum_type.values_by_number, _replacement(field.enum_type)
    meant = f"is not known to this core; it is read as {replacement.name}"
    if field.is_repeated:
        for place, number in enumerate(value):
            if number not in known:
                value[place] = replacement.number
                yield f"{where}[{place}]", f"{number} {meant}", field.enum_type
    elif value not in known:
        setattr(message, field.name, replacement.number)
        yield where, f"{value} {meant}", field.enum_type


def _replacement(enum: Any) -> Any:
    unknown = [value for value in enum.values if value.name.endswith("_UNKNOWN")]
    return unknown[0] if unknown else enum.values_by_number[0]


def _elements(values: Any, field: Any, where: str) -> Iterator[tuple[str, str, Any]]:
    removed = []
    for place, element in enumerate(values):
        found = list(_walk(element, f"{where}[{place}]"))
        if found and field.message_type in _REMOVED:
            removed.append(place)
            word = field.message_type.name.lower()
            for path, problem, enum in found:
                number = problem.partition(" ")[0]
                yield path, f"{number} is not known to this core; the {word} has no effect", enum
        else:
            yield from found
    for place in reversed(removed):
        del values[place]


def _fit_no_node(pod: pod_pb2.Pod, found: list[tuple[str, str, Any]]) -> None:
    """Replaces terms with an unknown operator by a selector that matches no node."""
    terms = {path.split(".")[1].partition("[")[0] for path, _, enum in found if enum is _OPERATOR}
    for name in terms:
        pod.spec.ClearField(name)  # type: ignore[arg-type]
    if terms:
        pod.spec.required_node_terms.ClearField("terms")
        pod.spec.required_node_terms.SetInParent()
