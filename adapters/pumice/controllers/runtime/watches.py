"""The watches of controllers: a resource with selectors, the type of its objects, and indexes."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.selection import Source
from pumice.controllers.runtime.objects import ApiObject

W = TypeVar("W", bound=ApiObject)

IndexFunction = Callable[[Any], Iterable[Hashable]]


def by_owner(obj: ApiObject) -> Iterable[str]:
    """Indexes objects by the uid of their controlling owner."""
    owner = obj.metadata.controller()
    return (owner.uid,) if owner is not None else ()


def by_namespace(obj: ApiObject) -> Iterable[str]:
    """Indexes objects by their namespace."""
    return (obj.metadata.namespace,)


def _never(obj: ApiObject) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Watch(Generic[W]):
    """One watch. Controllers that declare equal resources, types and selectors share one cache."""

    resource: Resource
    type: type[W]
    # Terms `key`, `key=value` or `!key`, separated by commas.
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    indexes: Mapping[str, IndexFunction] = field(default_factory=dict, compare=False)
    # The watch is open only while this other watch has objects; None: it is always open.
    needed_by: "Watch[Any] | None" = field(default=None, compare=False)
    # Whether an object of this watch keeps it open, even if the other watch has no objects.
    needs_itself: Callable[[Any], bool] = field(default=_never, compare=False)

    @property
    def source(self) -> Source:
        return Source(self.resource, self.field_selector, self.label_selector)

    def decoder(self) -> "msgspec.json.Decoder[W]":
        return msgspec.json.Decoder(self.type)

    def selects(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the watch selects an object with these labels; False if fields decide too."""
        if self.field_selector:
            return False
        given = labels or {}
        for term in filter(None, self.label_selector.split(",")):
            key, equals, value = term.removeprefix("!").partition("=")
            if term.startswith("!"):
                if key in given:
                    return False
            elif key not in given or (equals and given[key] != value):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Change(Generic[W]):
    """One change in a cache. A created object has no old state, a deleted object no new state."""

    watch: Watch[W]
    old: W | None
    new: W | None

    @property
    def latest(self) -> W:
        """The new state, or the last one of a deleted object."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found
