"""Commands for objects that do not exist."""

from dataclasses import dataclass
from typing import Final

from pumice.controllers.job.times import milliseconds
from pumice.controllers.job.types import Command
from pumice.controllers.resources import COMMANDS
from pumice.controllers.runtime.acts import Delete, Plan

# A Command may be seen before the object that it is for.
ORPHAN_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Orphans:
    """Commands whose target is not there, and the time."""

    commands: tuple[Command, ...]
    now_ms: int


def drop_orphans(seen: Orphans) -> Plan:
    """Deletes old Commands: a target that is created later must not carry them out."""
    ages = [seen.now_ms - milliseconds(one.metadata.creation_timestamp) for one in seen.commands]
    old = [one for one, age in zip(seen.commands, ages, strict=True) if age >= ORPHAN_MS]
    waits = [ORPHAN_MS - age for age in ages if age < ORPHAN_MS]
    removals = tuple(Delete(COMMANDS, *one.metadata.key, uid=one.metadata.uid) for one in old)
    return Plan((removals,) if removals else (), min(waits) / 1000 if waits else None)
