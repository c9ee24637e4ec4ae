"""The watches of the Queue controller, and what it observes."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from pumice.controllers.bus import Command, OrphanedCommands, by_target, delete_orphans
from pumice.controllers.options import ControllerOptions
from pumice.controllers.podgroup.types import PodGroup
from pumice.controllers.queue.hierarchy import Problem, problem_of
from pumice.controllers.queue.reconcile import Observed, outdated_counters, reconcile
from pumice.controllers.queue.types import Queue
from pumice.controllers.resources import COMMANDS, POD_GROUP, QUEUE
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import Key
from pumice.controllers.runtime.watches import Change, Watch

# Counters of a queue are written at most once in this time.
COUNTERS_MS: Final = 1000
# How long a changed PodGroup may wait to be counted, because others usually follow it.
_GROUPS_DELAY_SECONDS: Final = 0.2
# A condition that does not get stored is written for this time at most: a CustomResourceDefinition
# may lack conditions.
REPORT_MS: Final = 10_000


def _by_queue(group: PodGroup) -> Iterable[Hashable]:
    return (group.spec.queue or "default",)


def _by_parent(queue: Queue) -> Iterable[Hashable]:
    return (queue.parent,)


WATCHED_QUEUES: Final = Watch(QUEUE, Queue, indexes={"parent": _by_parent})
WATCHED_GROUPS: Final = Watch(POD_GROUP, PodGroup, indexes={"queue": _by_queue})
WATCHED_COMMANDS: Final = Watch(COMMANDS, Command, indexes={"queue": by_target(QUEUE)})


class QueueController(Controller[Observed | OrphanedCommands]):
    """Opens and closes queues, and counts their PodGroups."""

    name = "queue-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_QUEUES, WATCHED_GROUPS, WATCHED_COMMANDS)

    def __init__(self, options: ControllerOptions) -> None:
        # PodGroups of each queue by phase, without zeros. Each change of a PodGroup adjusts the counts,
        # because a queue may have too many PodGroups to count them all again.
        self._counts: dict[str, dict[str, int]] = {}
        # When the counters of each queue were last written.
        self._counted_ms: dict[str, int] = {}
        # The current problem of each queue, and since when it exists.
        self._problems: dict[str, tuple[Problem, int]] = {}

    def track(self, change: Change[Any], caches: Caches) -> None:
        if change.watch == WATCHED_GROUPS:
            self._count_group(change)
        elif change.watch == WATCHED_QUEUES and change.new is None:
            self._counted_ms.pop(change.latest.metadata.name, None)
            self._problems.pop(change.latest.metadata.name, None)

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        if change.watch == WATCHED_QUEUES:
            return self._keys_of_queue(change, caches)
        if change.watch == WATCHED_GROUPS:
            # The queues whose counters a PodGroup changes.
            before, after = _queue_and_phase(change.old), _queue_and_phase(change.new)
            changed = (before, after) if before != after else ()
            return {("", counted[0]) for counted in changed if counted is not None}
        # A queue below the target may wait for the Command.
        targets = list(by_target(QUEUE)(change.latest))
        children = (one for _, name in targets for one in caches[WATCHED_QUEUES].by("parent", name))
        return [*targets, *(one.metadata.key for one in children)]

    def delay_seconds(self, change: Change[Any]) -> float:
        return _GROUPS_DELAY_SECONDS if change.watch == WATCHED_GROUPS else 0.0

    def _keys_of_queue(self, change: Change[Queue], caches: Caches) -> Iterable[Key]:
        """The queue; and if its state or spec changed, the queues below it and its parents."""
        old, new, name = change.old, change.new, change.latest.metadata.name
        keys = [("", name)]
        if old is None or new is None or (old.is_closed, old.spec) != (new.is_closed, new.spec):
            keys += [("", one) for one in _descendants(name, caches)]
            keys += [("", one.parent) for one in (old, new) if one is not None]
        return keys

    def _count_group(self, change: Change[PodGroup]) -> None:
        before, after = (_queue_and_phase(group) for group in (change.old, change.new))
        if before == after:
            return
        for counted, step in ((before, -1), (after, 1)):
            if counted is not None:
                queue, phase = counted
                counts = self._counts.setdefault(queue, {})
                counts[phase] = counts.get(phase, 0) + step
                if not counts[phase]:
                    del counts[phase]
                if not counts:
                    del self._counts[queue]

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | OrphanedCommands | None:
        name, queues = key[1], caches[WATCHED_QUEUES]
        queue = queues.get(*key)
        commands = caches[WATCHED_COMMANDS]
        own = [one for one in commands.by("queue", key) if not one.metadata.is_terminating]
        own.sort(key=lambda command: command.creation_order)
        if queue is None:
            return OrphanedCommands(tuple(own), now_ms) if own else None
        counts = dict(self._counts.get(name, {}))
        children = queues.by("parent", name)
        problem = problem_of(queue, lambda name: queues.get("", name), children, counts)
        return Observed(
            queue,
            queues.get("", queue.parent),
            bool(commands.by("queue", ("", queue.parent))),
            tuple(own),
            counts,
            self._counters_wait(queue, counts, now_ms),
            problem,
            now_ms,
            self._is_reported(name, problem, now_ms),
        )

    def _is_reported(self, name: str, problem: Problem | None, now_ms: int) -> bool:
        """Whether a problem was written for long enough, even if it is not stored."""
        if problem is None:
            self._problems.pop(name, None)
            return False
        known = self._problems.get(name)
        if known is None or known[0] != problem:
            known = self._problems[name] = (problem, now_ms)
        return now_ms - known[1] > REPORT_MS

    def _counters_wait(self, queue: Queue, counts: dict[str, int], now_ms: int) -> float:
        """Seconds until outdated counters may be written; 0: now, and the time is noted."""
        if not outdated_counters(queue, counts):
            return 0.0
        name = queue.metadata.name
        left_ms = self._counted_ms.get(name, 0) + COUNTERS_MS - now_ms
        if left_ms > 0:
            return left_ms / 1000
        self._counted_ms[name] = now_ms
        return 0.0

    def reconcile(self, observed: Observed | OrphanedCommands) -> Plan:
        if isinstance(observed, OrphanedCommands):
            return delete_orphans(observed)
        return reconcile(observed)


def _descendants(name: str, caches: Caches) -> list[str]:
    """All queues below a queue, once each, even if a queue is below itself."""
    found = [name]
    for parent in found:
        names = (one.metadata.name for one in caches[WATCHED_QUEUES].by("parent", parent))
        found += [one for one in names if one not in found]
    return found[1:]


def _queue_and_phase(group: PodGroup | None) -> tuple[str, str] | None:
    """Where a PodGroup is counted: its queue, and its phase in lower case."""
    if group is None:
        return None
    return group.spec.queue or "default", (group.status.phase or "Pending").lower()
