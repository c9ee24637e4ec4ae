"""What all controllers read of an object, and the objects that they create.

A controller declares the fields that it reads as a subclass of `ApiObject`; other fields are not kept
in memory.
"""

from typing import Any, TypeAlias

import msgspec

from pumice.adapters.kubernetes.resources import Resource

Manifest: TypeAlias = dict[str, Any]
# Namespace and name of an object; the namespace is "" for objects of the whole cluster.
Key: TypeAlias = tuple[str, str]


class OwnerReference(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """One owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
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
    def key(self) -> Key:
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

    def controller_key(self, resource: Resource) -> Key | None:
        """The key of the controlling owner; None: it is not of this resource, or there is none."""
        owner = self.controller()
        if (
            owner is None
            or owner.kind != resource.name
            or owner.api_version != resource.api_version
        ):
            return None
        return self.namespace, owner.name


class ApiObject(msgspec.Struct):
    """An object of the API server. Controllers share it through a cache, so nobody may change it."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class ConfigMap(ApiObject):
    """A ConfigMap."""

    data: dict[str, str] | None = None


def shown_key(key: Key) -> str:
    """`namespace/name`, or the name alone of an object without a namespace."""
    return "/".join(part for part in key if part)


def owner_reference(resource: Resource, owner: Metadata) -> Manifest:
    """The reference by which an owner controls an object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.name,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def new_object(resource: Resource, metadata: Manifest, **content: Any) -> Manifest:
    """The body of an object that is to be created."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.name,
        "metadata": metadata,
        **content,
    }
