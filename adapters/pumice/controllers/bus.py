"""Commands: objects of the group bus.volcano.sh that ask for an action on a Job or a queue."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.adapters.kubernetes.resources import Resource
from pumice.controllers.resources import COMMANDS
from pumice.controllers.runtime.acts import Delete, Plan
from pumice.controllers.runtime.objects import (
    ApiObject,
    Key,
    Manifest,
    Metadata,
    new_object,
    owner_reference,
)
from pumice.controllers.runtime.times import milliseconds

# A Command may be observed before its target.
ORPHAN_MS: Final = 10_000


class _Target(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class Command(ApiObject):
    """A Command."""

    action: str = ""
    target: _Target | None = None

    @property
    def creation_order(self) -> tuple[str, int, str]:
        metadata = self.metadata
        version = metadata.resource_version
        return (
            metadata.creation_timestamp,
            int(version) if version.isdecimal() else 0,
            metadata.name,
        )

    def removal(self) -> Delete:
        return Delete.of(COMMANDS, self.metadata)


def command_body(resource: Resource, target: Metadata, action: str) -> Manifest:
    """A new Command. Commands for objects without a namespace are in the namespace `default`."""
    reference = owner_reference(resource, target)
    metadata = {
        "generateName": f"{target.name}-{action.lower()}-",
        "namespace": target.namespace or "default",
        "ownerReferences": [reference],
    }
    return new_object(COMMANDS, metadata, target=reference, action=action)


def by_target(resource: Resource) -> Callable[[Command], Iterable[Key]]:
    """Indexes Commands by the key of their target, if it is of this resource."""

    def keys(command: Command) -> Iterable[Key]:
        target = command.target
        if target is None:
            return ()
        if target.kind != resource.name or target.api_version != resource.api_version:
            return ()
        return ((command.metadata.namespace if resource.namespaced else "", target.name),)

    return keys


@dataclass(frozen=True, slots=True)
class OrphanedCommands:
    """Commands whose target does not exist."""

    commands: tuple[Command, ...]
    now_ms: int


def delete_orphans(observed: OrphanedCommands) -> Plan:
    """Deletes old Commands, so that they do not act on a target that is created later."""
    left_ms = [
        milliseconds(one.metadata.creation_timestamp) + ORPHAN_MS - observed.now_ms
        for one in observed.commands
    ]
    removals = [
        one.removal() for one, left in zip(observed.commands, left_ms, strict=True) if left <= 0
    ]
    waits_ms = [left for left in left_ms if left > 0]
    return Plan.of(removals, again_seconds=min(waits_ms) / 1000 if waits_ms else None)
