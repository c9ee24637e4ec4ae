"""Objects that are like one before them, made from that one: only what is their own is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Generic, TypeVar

from pumice.server.wire.partial import Fields, Types

V = TypeVar("V")
# What an object has for its own, from its message and what one before it has there.
OwnReader = Callable[[Any, Any], Any]


class LikeKind(Generic[V]):
    """A kind of objects of which many have most fields in common."""

    def __init__(
        self,
        message: Any,
        type_: type[V],
        read: Callable[[Any], V],
        own: Mapping[str, OwnReader],
        left_out: Fields | None = None,
    ) -> None:
        """``own`` has a reader for every field that may differ; ``left_out`` names the parts of
        those of them that differ in part.
        """
        types = Types()
        types.without("Shape", message.DESCRIPTOR, {**dict.fromkeys(own), **(left_out or {})})
        (self.shape,) = types.made("Shape")
        names = [field.name for field in fields(type_)]  # type: ignore[arg-type]
        self.values: Callable[[V], tuple[Any, ...]] = attrgetter(*names)
        self.own = [(names.index(name), reader) for name, reader in own.items()]
        self.make, self.read = type_, read


class LikeReader(Generic[V]):
    """Reads messages of one kind; remembers what they had in common with others.

    The bytes of a message are read once more by one that does not know its own fields; what that
    one writes is the key under which an object like it is found.
    """

    # What is larger is rare and not worth keeping the bytes of.
    LARGEST_KEY_BYTES = 1 << 14

    def __init__(self, kind: LikeKind[V], limit: int = 2_000) -> None:
        self._kind = kind
        self._limit = limit
        self._known: dict[bytes, tuple[Any, ...]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def read(self, message: Any) -> V:
        kind = self._kind
        shape = kind.shape.FromString(message.SerializeToString())
        shape.DiscardUnknownFields()
        key: bytes = shape.SerializeToString()
        known = self._known.get(key)
        if known is None or not (message.uid and message.name):
            value = kind.read(message)
            if len(key) <= self.LARGEST_KEY_BYTES:
                if len(self._known) >= self._limit:
                    self._known.clear()
                self._known[key] = kind.values(value)
            return value
        values = [*known]
        for place, read in kind.own:
            values[place] = read(message, known[place])
        return kind.make(*values)
