"""What controllers watch: resources with selectors, the fields that are kept, and indexes."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.selection import Source
from pumice.controllers.runtime.objects import Watched

W = TypeVar("W", bound=Watched)

IndexFunction = Callable[[Any], Iterable[Hashable]]


def by_owner(seen: Watched) -> Iterable[str]:
    """Indexes objects by the uid of their controller."""
    owner = seen.metadata.controller()
    return (owner.uid,) if owner is not None else ()


def by_label(name: str) -> IndexFunction:
    """Indexes objects by namespace and value of a label."""

    def values(seen: Watched) -> Iterable[tuple[str, str]]:
        value = seen.metadata.label(name)
        return ((seen.metadata.namespace, value),) if value else ()

    return values


def _never(seen: Watched) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Watch(Generic[W]):
    """One watch. Controllers that declare the same resource, type and selectors share its cache."""

    resource: Resource
    type: type[W]
    # A key, key=value, or !key for its absence; several are separated by commas.
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    indexes: Mapping[str, IndexFunction] = field(default_factory=dict, compare=False)
    # The watch is open only while this other watch has objects; None: it is always open.
    needed_by: "Watch[Any] | None" = field(default=None, compare=False)
    # Objects of this watch that need it, even when the other watch has none.
    needs_itself: Callable[[Any], bool] = field(default=_never, compare=False)

    @property
    def source(self) -> Source:
        return Source(self.resource, self.field_selector, self.label_selector)

    def decoder(self) -> "msgspec.json.Decoder[W]":
        return msgspec.json.Decoder(self.type)

    def selects(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is surely selected; fields are not compared."""
        if self.field_selector:
            return False
        held = labels or {}
        for term in filter(None, self.label_selector.split(",")):
            key, equals, value = term.removeprefix("!").partition("=")
            if term.startswith("!"):
                if key in held:
                    return False
            elif key not in held or (equals and held[key] != value):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Change(Generic[W]):
    """One change of a cache. A created object has no old state, a deleted one no new state."""

    watch: Watch[W]
    old: W | None
    new: W | None

    @property
    def seen(self) -> W:
        """The newest known state."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found
