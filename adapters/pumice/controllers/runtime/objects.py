"""The parts of objects that every controller reads.

A controller declares the fields that it needs as a subclass of `Watched`; other fields are not kept
in memory.
"""

from typing import Any, Final, TypeAlias

import msgspec

Manifest: TypeAlias = dict[str, Any]


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """One owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """Names, versions, labels and owners of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def is_terminating(self) -> bool:
        return self.deletion_timestamp is not None

    def label(self, name: str) -> str:
        return (self.labels or {}).get(name, "")

    def annotation(self, name: str) -> str:
        return (self.annotations or {}).get(name, "")

    def controller(self) -> OwnerReference | None:
        """The owner that controls the object."""
        return next((one for one in self.owner_references or () if one.controller), None)


class Watched(msgspec.Struct):
    """An object of a cache. Its values are shared, so nobody may change them."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


NAMESPACE_SEPARATOR: Final = "/"


def shown_key(key: tuple[str, str]) -> str:
    """`namespace/name`, or the name alone of an object without a namespace."""
    return NAMESPACE_SEPARATOR.join(part for part in key if part)


def owner_reference(api_version: str, kind: str, metadata: Metadata) -> Manifest:
    """The reference that makes an object the controller of another."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
