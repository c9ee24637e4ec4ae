"""Translates documents into objects of the protocol, with errors by object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Raw

from pumice.manifests.documents import Document, Note, parse, unfold
from pumice.manifests.errors import ManifestError, TooManyObjectsError
from pumice.manifests.jobs import DEFAULT_SCHEDULER, GROUP_NAME, expand
from pumice.manifests.kinds import reader_for, reader_of
from pumice.v1 import pod_pb2
from pumice.v1.object_pb2 import ClusterObject, Kind


@dataclass(frozen=True, slots=True)
class IgnoredObject:
    """An object of a kind that scheduling does not read."""

    source: str
    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        prefix = f"{self.source}: " if self.source else ""
        return (
            f"{prefix}{self.kind} {self.name}: ignored, {self.api_version} {self.kind} is not read"
        )


@dataclass(slots=True)
class Translation:
    """The result of translating documents."""

    objects: list[ClusterObject] = field(default_factory=list)
    errors: list[ManifestError] = field(default_factory=list)
    ignored: list[IgnoredObject] = field(default_factory=list)
    # Assumptions about workloads and pods.
    notes: list[Note] = field(default_factory=list)
    # The file and line of each object, in the order of the objects.
    sources: list[str] = field(default_factory=list)


def decode(
    kind: Kind.ValueType,
    data: bytes | Raw,
    into: ClusterObject | None = None,
    source: str = "",
    group: str = "",
) -> ClusterObject:
    """An object from the JSON of an API server; the `kind` in the JSON is not read."""
    target = ClusterObject() if into is None else into
    reader = reader_of(kind, group)
    reader.read(data, getattr(target, reader.field), source)
    return target


def decode_pod(data: bytes | Raw, into: pod_pb2.Pod | None = None, source: str = "") -> pod_pb2.Pod:
    """A pod from the JSON of an API server."""
    target = pod_pb2.Pod() if into is None else into
    reader_of(Kind.KIND_POD).read(data, target, source)
    return target


def translate(document: Mapping[str, Any], source: str = "") -> ClusterObject | None:
    """An object from its manifest; None for a kind that scheduling does not read.

    Raises ManifestError for an invalid object.
    """
    api_version, kind = _type_of(document, source)
    reader = reader_for(api_version, kind)
    if reader is None:
        return None
    target = ClusterObject()
    reader.read(_encoded(document, kind, source), getattr(target, reader.field), source)
    return target


def translate_all(
    *sources: Path | IO[str] | IO[bytes], expand_workloads: bool = False
) -> Translation:
    """The objects of files or streams of YAML or JSON; an error does not affect other objects.

    With ``expand_workloads``, Jobs and other workloads get their PodGroups and pods.
    """
    documents = (document for source in sources for document in _read(source))
    return _translated(expand(documents) if expand_workloads else documents)


def translate_documents(documents: Iterable[Any], source: str = "") -> Translation:
    """The objects of parsed documents; a list is replaced by its items."""
    return _translated(
        found
        for index, document in enumerate(documents)
        for found in unfold(document, f"{source}[{index}]")
    )


def translate_texts(
    texts: Iterable[tuple[str, str]],
    *,
    scheduler_name: str = DEFAULT_SCHEDULER,
    max_objects: int | None = None,
) -> Translation:
    """The objects of pairs of source name and text, with the pods of workloads.

    Pods without a schedulerName get the given one. Raises TooManyObjectsError for more than
    ``max_objects`` objects.
    """
    documents = (document for source, text in texts for document in parse(text, source))
    return _translated(expand(documents, scheduler_name), max_objects)


def _read(source: Path | IO[str] | IO[bytes]) -> Iterator[Document | ManifestError]:
    name = str(source if isinstance(source, Path) else getattr(source, "name", "<stream>"))
    try:
        text = source.read_bytes() if isinstance(source, Path) else source.read()
    except OSError as error:
        yield ManifestError(error.strerror or str(error), source=name)
        return
    except UnicodeDecodeError as error:
        yield ManifestError(f"is not UTF-8 text (byte {error.start})", source=name)
        return
    yield from parse(text, name)


def _translated(
    documents: Iterable[Document | ManifestError | Note], max_objects: int | None = None
) -> Translation:
    result = Translation()
    identities = _UniqueIdentities()
    # Pods of one template have the same errors.
    errors: dict[tuple[str, ...], ManifestError] = {}
    for document in documents:
        if isinstance(document, Note):
            result.notes.append(document)
            continue
        if isinstance(document, ManifestError):
            errors.setdefault((str(document), document.job), document)
            continue
        try:
            translated = translate(document.body, document.source)
            if translated is None:
                result.ignored.append(_ignored(document))
            else:
                identities.add(translated, document.source)
                result.objects.append(translated)
                result.sources.append(document.source)
        except ManifestError as error:
            found = _located(error, document)
            errors.setdefault((str(found), found.job), found)
        if max_objects is not None and len(result.objects) > max_objects:
            raise TooManyObjectsError(max_objects)
    result.errors.extend(errors.values())
    return result


def _located(error: ManifestError, document: Document) -> ManifestError:
    """The error with the workload and the PodGroup of the object."""
    origin = document.origin
    if origin is not None:
        return error.made_for(origin.kind, origin.name, origin.field, origin.job)
    metadata = document.body.get("metadata")
    if not isinstance(metadata, Mapping):
        metadata = {}
    annotations = metadata.get("annotations")
    group = annotations.get(GROUP_NAME) if isinstance(annotations, Mapping) else None
    if group:
        error.job = f"{metadata.get('namespace') or 'default'}/{group}"
    elif error.kind == "PodGroup":
        error.job = error.name
    return error


class _UniqueIdentities:
    """The names and uids of translated objects; raises ManifestError for duplicates."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], str] = {}

    def add(self, translated: ClusterObject, source: str) -> None:
        kind, message = _content(translated)
        namespace = getattr(message, "namespace", "")
        name = f"{namespace}/{message.name}" if namespace else message.name
        for claim, text in (("name", name), ("uid", message.uid)):
            if (kind, claim, text) in self._seen:
                raise ManifestError(
                    f"duplicate {claim}, first used at {self._seen[kind, claim, text]}",
                    source=source,
                    kind=kind,
                    name=name,
                    field=f"metadata.{claim}",
                )
        for claim, text in (("name", name), ("uid", message.uid)):
            self._seen[kind, claim, text] = source


def _content(translated: ClusterObject) -> tuple[str, Any]:
    descriptor, message = translated.ListFields()[0]
    return reader_of(Kind.ValueType(descriptor.number)).name, message


def _type_of(document: Mapping[str, Any], source: str) -> tuple[str, str]:
    for key in ("apiVersion", "kind"):
        text = document.get(key)
        if not isinstance(text, str) or not text:
            problem = "is missing" if text is None or text == "" else f"{text!r} is not text"
            raise ManifestError(problem, source=source, name=_name_of(document), field=key)
    return document["apiVersion"], document["kind"]


def _name_of(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    parts = (metadata.get("namespace"), metadata.get("name"))
    return "/".join(str(part) for part in parts if part)


def _ignored(document: Document) -> IgnoredObject:
    body = document.body
    return IgnoredObject(document.source, body["apiVersion"], body["kind"], _name_of(body))


def _encoded(document: Mapping[str, Any], kind: str, source: str) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        problem = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ManifestError(problem, source=source, kind=kind, name=_name_of(document)) from None
