"""Common typed parts of Kubernetes objects; only the declared fields are decoded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Meta, Raw, Struct

from pumice.manifests.errors import FieldError
from pumice.manifests.times import fill_time

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

T = TypeVar("T")

# An absent raw part. Raw parts are decoded later, once per distinct text.
ABSENT: Final = Raw(b"")


class Shape(Struct, rename="camel", frozen=True, gc=False):
    """A part of an object; undeclared fields are skipped, not decoded."""


class OwnerReference(Shape, frozen=True):
    """An owner of an object."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


class Metadata(Shape, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()

    def need_name(self) -> str:
        if not self.name:
            raise FieldError("metadata.name", "is missing")
        return self.name

    @property
    def namespace_or_default(self) -> str:
        """The namespace; `default` if it is missing."""
        return self.namespace or "default"

    def uid_of(self, kind: str) -> str:
        """The uid of a namespaced object; `kind/namespace/name` if it is missing."""
        return self.uid or f"{kind}/{self.namespace or 'default'}/{self.name}"

    def cluster_uid_of(self, kind: str) -> str:
        """The uid of a cluster-scoped object; `kind/name` if it is missing."""
        return self.uid or f"{kind}/{self.name}"

    def fill_creation_time(self, target: Timestamp) -> None:
        fill_time(target, self.creation_timestamp, "metadata.creationTimestamp")

    @property
    def controller(self) -> OwnerReference | None:
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None

    @property
    def controller_uid(self) -> str:
        owner = self.controller
        return "" if owner is None else owner.uid


_LOCATED: Final = re.compile(r"(.*?)(?: - at `(key in )?\$\.?(.*)`)?", re.DOTALL)


def decode(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """Decodes JSON. Raises FieldError with the path of the invalid field."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from None
    except msgspec.DecodeError as error:
        raise FieldError("", _lowered(str(error))) from None
    except UnicodeDecodeError:
        raise FieldError("", "is not valid UTF-8") from None
    except RecursionError:
        raise FieldError("", "is nested too deeply") from None


def decode_part(decoder: msgspec.json.Decoder[T], raw: Raw, field: str, default: T) -> T:
    """Decodes a raw part, or returns the default for an absent one."""
    if not raw:
        return default
    try:
        return decode(decoder, raw)
    except FieldError as error:
        raise error.under(field) from None


def without_nulls(document: Any) -> Any:
    """A copy without null fields, which Kubernetes treats as absent."""
    if isinstance(document, dict):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [without_nulls(item) for item in document]
    return document


def one_of(choices: Mapping[str, T], name: str, field: str) -> T:
    """The value for a name. Raises FieldError with the allowed names."""
    try:
        return choices[name]
    except KeyError:
        problem = f"{name[:80]!r} is unknown" if name else "is missing"
        raise FieldError(field, problem, ", ".join(word for word in choices if word)) from None


def _field_error(message: str) -> FieldError:
    match = _LOCATED.fullmatch(message)
    if match is None:  # pragma: no cover - the pattern takes any text
        return FieldError("", message)
    problem, key, path = match.groups(default="")
    return FieldError(path, _lowered(f"{'key ' if key else ''}{problem}"))


def _lowered(text: str) -> str:
    text = text.replace("`", "")
    return text[:1].lower() + text[1:]
