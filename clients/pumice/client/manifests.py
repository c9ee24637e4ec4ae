"""Manifests in all accepted forms, as objects of a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pumice.client import arguments
from pumice.client.errors import ArgumentError
from pumice.client.values import Value
from pumice.v1 import job_result_pb2
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.scheduling_service_pb2 import ObjectSet

# API groups by kind; Kubernetes' client does not set apiVersion in objects that a program creates.
_GROUPS: Mapping[str, str] = {
    "Job": "batch/",
    "CronJob": "batch/",
    "Deployment": "apps/",
    "ReplicaSet": "apps/",
    "StatefulSet": "apps/",
    "DaemonSet": "apps/",
    "PriorityClass": "scheduling.k8s.io/",
    "StorageClass": "storage.k8s.io/",
    "PodDisruptionBudget": "policy/",
}
# A class of Kubernetes' client, such as ``V1Pod``.
_MODEL = re.compile(r"(V\d+(?:(?:Alpha|Beta)\d+)?)([A-Z]\w*)")
_ALLOWED = "a path, a text, a mapping, an object with to_dict(), a Manifest, a ClusterObject, or a list of them"


@dataclass(frozen=True, slots=True)
class Manifest(Value):
    """A text with Kubernetes objects, and its source name in problems."""

    text: str
    source: str = ""


@runtime_checkable
class HasToDict(Protocol):
    """An object of a Kubernetes client library."""

    def to_dict(self) -> Any: ...


ManifestLike: TypeAlias = (
    str | Path | Mapping[str, Any] | Manifest | ClusterObject | HasToDict | Iterable[Any]
)


def object_set(given: ManifestLike) -> ObjectSet:
    """The objects of a request. Reads files."""
    objects = ObjectSet()
    for number, each in enumerate(_each(given)):
        if isinstance(each, ClusterObject):
            objects.other_objects.append(each)
        else:
            objects.manifests.append(_manifest(each, f"manifest[{number}]"))
    return objects


def _each(given: ManifestLike) -> Iterator[Any]:
    single = (str, Path, Mapping, Manifest, ClusterObject, bytes)
    if isinstance(given, single) or _is_object(given):
        yield given
    elif isinstance(given, Iterable):
        yield from given
    else:
        raise _unusable(given)


def _manifest(each: Any, source: str) -> job_result_pb2.Manifest:
    match each:
        case Manifest():
            text, source = arguments.text("manifest.text", each.text), each.source or source
        case Path():
            text, source = arguments.read_file("manifest", each), str(each)
        case str() if not _is_text(each):
            arguments.text("manifest", each, empty=False)
            text, source = arguments.read_file("manifest", Path(each)), each
        case str():
            text = each
        case Mapping():
            text = arguments.encoded(source, each)
        case _ if _is_object(each):
            text = arguments.encoded(source, _mapping_of(each))
        case _:
            raise _unusable(each)
    return job_result_pb2.Manifest(source=source, text=text)


def _is_text(value: str) -> bool:
    """Whether a string is a text, not a path: it has a line break, or begins with a brace."""
    return "\n" in value or value.lstrip()[:1] in {"{", "["}


def _is_object(value: object) -> bool:
    return not isinstance(value, type) and (
        hasattr(value, "attribute_map") or isinstance(value, HasToDict)
    )


def _mapping_of(value: Any) -> Mapping[str, Any]:
    plain = _plain(value)
    if not isinstance(plain, Mapping):
        raise _unusable(value)
    found = dict(plain)
    model = _MODEL.fullmatch(type(value).__name__)
    if model is not None and hasattr(value, "attribute_map"):
        kind = model[2]
        if not found.get("kind"):
            found["kind"] = kind
        if not found.get("apiVersion"):
            found["apiVersion"] = f"{_GROUPS.get(kind, '')}{model[1].lower()}"
    return found


def _plain(value: Any) -> Any:
    """The value as JSON types, with the field names of the API.

    Objects of Kubernetes' Python client have Python names, and a table of the API's names.
    """
    names = getattr(value, "attribute_map", None)
    if isinstance(names, Mapping):
        held = {key: getattr(value, attribute, None) for attribute, key in names.items()}
        return {key: _plain(each) for key, each in held.items() if each is not None}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, HasToDict) and not isinstance(value, type):
        return _plain(value.to_dict())
    return value


def _unusable(value: object) -> ArgumentError:
    return ArgumentError(f"manifest: {type(value).__name__} given; allowed: {_ALLOWED}")
