"""Random messages: valid ones with odd values, and bytes that are no message."""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

INTEGERS = (0, 1, -1, 2, 5, 1000, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63))
TEXTS = (
    *("", "a", "n1", "default", "team", "job", "job-0", "team/job", "cpu", "memory", "pods"),
    *("x" * 300, "\n", "é", "\0", "*", "..", "9" * 30, "0-99999999999", "[", "(a+)+$", "volcano"),
    *("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights", "volcano.sh/sla-waiting-time"),
    *("metadata.name", "zone", "kubernetes.io/hostname", "nvidia.com/gpu", "-1", "True"),
)
_DEEPEST = 6


def scramble(message: Any, random: Random, share: float, depth: int = 0) -> None:
    """Gives a share of the fields other values, at any depth."""
    for field in message.DESCRIPTOR.fields:
        if random.random() < share:
            _scramble_field(message, field, random, share, depth)


def _scramble_field(
    message: Any, field: FieldDescriptor, random: Random, share: float, depth: int
) -> None:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        _scramble_map(getattr(message, field.name), inner, random, share, depth)
    elif inner is not None and depth >= _DEEPEST:
        return
    elif field.is_repeated:
        held = getattr(message, field.name)
        if inner is None:
            held.extend(_scalar(field, random) for _ in range(random.randrange(3)))
        else:
            for _ in range(random.randrange(3)):
                scramble(held.add(), random, 0.5, depth + 1)
            if held:
                scramble(random.choice(held), random, share, depth + 1)
    elif inner is not None:
        held = getattr(message, field.name)
        held.SetInParent()
        scramble(held, random, share, depth + 1)
    else:
        setattr(message, field.name, _scalar(field, random))


def _scramble_map(held: Any, entry: Any, random: Random, share: float, depth: int) -> None:
    value = entry.fields_by_name["value"]
    for _ in range(random.randrange(3)):
        key = random.choice(TEXTS)
        if value.message_type is not None:
            scramble(held[key], random, share, depth + 1)
        else:
            held[key] = _scalar(value, random)


def _scalar(field: FieldDescriptor, random: Random) -> Any:
    if field.enum_type is not None:
        return random.choice((0, 1, 2, 3, 4, 77, -1))
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return random.random() < 0.5
        case FieldDescriptor.TYPE_STRING:
            return random.choice(TEXTS)
        case FieldDescriptor.TYPE_INT32:
            return min(max(random.choice(INTEGERS), -(2**31)), 2**31 - 1)
        case FieldDescriptor.TYPE_FIXED64:
            return abs(random.choice(INTEGERS))
        case FieldDescriptor.TYPE_DOUBLE:
            return random.choice((0.0, -1.0, float("nan"), float("inf")))
        case _:
            return random.choice(INTEGERS)


def damaged(data: bytes, random: Random) -> bytes:
    """The bytes, some of them changed or missing now and then."""
    chance = random.random()
    if chance < 0.05:
        return random.randbytes(random.randrange(100))
    if chance < 0.1:
        return data[: random.randrange(len(data) + 1)]
    if chance < 0.2 and data:
        at = random.randrange(len(data))
        return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    return data
