"""The watches of the Queue controller, and what it looks at."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from pumice.controllers.job.types import Command, PodGroup
from pumice.controllers.options import ControllerOptions
from pumice.controllers.orphaned_commands import Orphans, drop_orphans
from pumice.controllers.queue.hierarchy import Problem, problem_of
from pumice.controllers.queue.reconcile import COUNTERS, Seen, reconcile
from pumice.controllers.queue.types import API_VERSION, KIND, Queue, QueueSpec
from pumice.controllers.resources import COMMANDS, POD_GROUP, QUEUE
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.watches import Change, Watch

# Counters of one queue are written at most once in this time.
COUNTERS_MS: Final = 1000
# How long a PodGroup may wait to be counted: others follow it.
_GROUPS_DELAY_SECONDS: Final = 0.2
# A problem is written until it is stored, for this time at most: a definition may lack conditions.
TELLING_MS: Final = 10_000


def _by_target(command: Command) -> Iterable[Hashable]:
    target = command.target
    if target is None or (target.api_version, target.kind) != (API_VERSION, KIND):
        return ()
    return (target.name,)


def _by_queue(group: PodGroup) -> Iterable[Hashable]:
    return (group.spec.queue or "default",)


def _by_parent(queue: Queue) -> Iterable[Hashable]:
    return (queue.parent,)


WATCHED_QUEUES: Final = Watch(QUEUE, Queue, indexes={"parent": _by_parent})
WATCHED_GROUPS: Final = Watch(POD_GROUP, PodGroup, indexes={"queue": _by_queue})
WATCHED_COMMANDS: Final = Watch(COMMANDS, Command, indexes={"queue": _by_target})


class QueueController:
    """Opens and closes queues, and counts their PodGroups."""

    name = "queue-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_QUEUES, WATCHED_GROUPS, WATCHED_COMMANDS)

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options
        # PodGroups of each queue by phase, without zeros. A queue may have many of them, and each changes
        # several times, so they are not counted anew.
        self._counts: dict[str, dict[str, int]] = {}
        # When the counters of each queue were last written.
        self._counted_ms: dict[str, int] = {}
        # The last problem of each queue, and since when it is there.
        self._problems: dict[str, tuple[Problem, int]] = {}

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        match change.watch.resource:
            case resource if resource == QUEUE:
                return self._of_queue(change, caches)
            case resource if resource == POD_GROUP:
                return self._of_group(change)
            case _:
                return self._of_command(change.seen, caches)

    def delay_seconds(self, change: Change[Any]) -> float:
        """PodGroups of a queue change one after the other, and one look counts them all."""
        return _GROUPS_DELAY_SECONDS if change.watch.resource == POD_GROUP else 0.0

    def _of_queue(self, change: Change[Queue], caches: Caches) -> Iterable[Key]:
        """The queue; those below it, and its parents, when its state or its place changed."""
        name = change.seen.metadata.name
        keys = [("", name)]
        if change.new is None:
            self._counted_ms.pop(name, None)
            self._problems.pop(name, None)
        if change.old is None or change.new is None or _place(change.old) != _place(change.new):
            keys += [("", one) for one in self._below(name, caches)]
            keys += [("", one.parent) for one in (change.old, change.new) if one is not None]
        return keys

    def _of_group(self, change: Change[PodGroup]) -> Iterable[Key]:
        """The queues in which a PodGroup is counted otherwise than before."""
        before, after = (_counted_in(group) for group in (change.old, change.new))
        if before == after:
            return ()
        for place, step in ((before, -1), (after, 1)):
            if place is not None:
                queue, phase = place
                held = self._counts.setdefault(queue, {})
                held[phase] = held.get(phase, 0) + step
                if not held[phase]:
                    del held[phase]
                if not held:
                    del self._counts[queue]
        return {("", place[0]) for place in (before, after) if place is not None}

    def _below(self, name: str, caches: Caches) -> list[str]:
        """All queues below a queue; one that is below itself is there once."""
        found = [name]
        for above in found:
            names = (one.metadata.name for one in caches[WATCHED_QUEUES].by("parent", above))
            found += [one for one in names if one not in found]
        return found[1:]

    def _of_command(self, command: Command, caches: Caches) -> Iterable[Key]:
        """The target; and the queues below it, which may wait for it."""
        names = [str(name) for name in _by_target(command)]
        below = (one for name in names for one in caches[WATCHED_QUEUES].by("parent", name))
        return [*(("", name) for name in names), *(one.metadata.key for one in below)]

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | Orphans | None:
        name = key[1]
        queue = caches[WATCHED_QUEUES].get("", name)
        commands = caches[WATCHED_COMMANDS]
        own = [one for one in commands.by("queue", name) if not one.metadata.is_terminating]
        if queue is None:
            return Orphans(tuple(own), now_ms) if own else None
        counts = dict(self._counts.get(name, {}))
        problem = problem_of(
            queue,
            lambda name: caches[WATCHED_QUEUES].get("", name),
            caches[WATCHED_QUEUES].by("parent", name),
            counts,
        )
        return Seen(
            queue,
            caches[WATCHED_QUEUES].get("", queue.parent),
            bool(commands.by("queue", queue.parent)),
            tuple(sorted(own, key=_order)),
            counts,
            self._wait(queue, counts, now_ms),
            problem,
            now_ms,
            self._is_told(name, problem, now_ms),
        )

    def _is_told(self, name: str, problem: Problem | None, now_ms: int) -> bool:
        """Whether a problem was written often enough, if it is not stored."""
        if problem is None:
            self._problems.pop(name, None)
            return False
        held = self._problems.get(name)
        if held is None or held[0] != problem:
            held = self._problems[name] = (problem, now_ms)
        return now_ms - held[1] > TELLING_MS

    def _wait(self, queue: Queue, counts: dict[str, int], now_ms: int) -> float:
        """Seconds until the counters may be written; they are about to be when it is 0."""
        name = queue.metadata.name
        if all(getattr(queue.status, one) == counts.get(one, 0) for one in COUNTERS):
            return 0.0
        left = self._counted_ms.get(name, 0) + COUNTERS_MS - now_ms
        if left > 0:
            return left / 1000
        self._counted_ms[name] = now_ms
        return 0.0

    def reconcile(self, seen: Seen | Orphans) -> Plan:
        return drop_orphans(seen) if isinstance(seen, Orphans) else reconcile(seen)


def _counted_in(group: PodGroup | None) -> tuple[str, str] | None:
    """Queue and phase, in lower case."""
    if group is None:
        return None
    return group.spec.queue or "default", (group.status.phase or "Pending").lower()


def _place(queue: Queue) -> tuple[bool, QueueSpec]:
    return queue.status.is_shut, queue.spec


def _order(command: Command) -> tuple[str, int, str]:
    metadata = command.metadata
    version = metadata.resource_version
    return metadata.creation_timestamp, int(version) if version.isdecimal() else 0, metadata.name
