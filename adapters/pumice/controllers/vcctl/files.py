"""Reads objects from files."""

from pathlib import Path

from pumice.adapters.kubernetes.resources import Resource
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.vcctl.access import BadInputError
from pumice.manifests.documents import parse
from pumice.manifests.errors import ManifestError


def objects_of(path: str, resource: Resource) -> list[Manifest]:
    """The objects of one kind in a file. Raises BadInputError for any other object."""
    found, kind = [], resource.name
    for document in parse(Path(path).read_bytes(), path):
        if isinstance(document, ManifestError):
            raise BadInputError(str(document))
        body = dict(document.body)
        given = body.get("kind")
        if given != kind:
            raise BadInputError(f"{document.source}: kind is {given}; allowed: {kind}")
        version = body.get("apiVersion", resource.api_version)
        if version != resource.api_version:
            raise BadInputError(
                f"{document.source}: apiVersion is {version}; allowed: {resource.api_version}"
            )
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or not (
            metadata.get("name") or metadata.get("generateName")
        ):
            raise BadInputError(f"{document.source}: metadata.name is missing")
        found.append(body)
    if not found:
        raise BadInputError(f"{path}: no {kind} in this file")
    return found


def one_of(path: str, resource: Resource) -> Manifest:
    found = objects_of(path, resource)
    if len(found) > 1:
        raise BadInputError(f"{path}: {len(found)} objects; allowed: one {resource.name}")
    return found[0]
