"""Problems with the position of a queue in the hierarchy, which no admission policy can detect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.controllers.queue.types import ROOT, Queue
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import Quantity, nanos

# Levels of queues below the root, as in Volcano.
MOST_LEVELS: Final = 5
_UNFINISHED: Final = ("pending", "inqueue", "running", "unknown")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: a reason in one word, and a sentence."""

    reason: str
    text: str


def problem_of(
    queue: Queue,
    find: Callable[[str], Queue | None],
    below: Sequence[Queue],
    counts: Mapping[str, int],
) -> Problem | None:
    """The first problem of a queue. `find` returns a queue by its name."""
    if queue.is_root:
        return None
    return (
        _of_parents(queue, find)
        or _of_capability(queue, find)
        or _of_sums(queue, below)
        or _of_jobs(below, counts)
    )


def _of_parents(queue: Queue, find: Callable[[str], Queue | None]) -> Problem | None:
    path = [queue.metadata.name]
    while path[-1] != ROOT:
        current = queue if len(path) == 1 else find(path[-1])
        if current is None:
            below = path[-2]
            owner = "" if below == queue.metadata.name else f" of queue {below}"
            return Problem("ParentMissing", f"spec.parent{owner}: queue {path[-1]} does not exist")
        if current.parent in path:
            return Problem("ParentCycle", f"spec.parent: {' below '.join([*path, current.parent])}")
        path.append(current.parent)
    levels = len(path) - 1
    if levels > MOST_LEVELS:
        text = f"spec.parent: the queue is {levels} levels below root; allowed: {MOST_LEVELS}"
        return Problem("TooDeep", text)
    return None


def _of_capability(queue: Queue, find: Callable[[str], Queue | None]) -> Problem | None:
    """Compares each resource with the nearest queue above that limits the resource."""
    for name, amount in sorted((queue.spec.capability or {}).items()):
        above = find(queue.parent)
        while above is not None and not above.is_root and name not in (above.spec.capability or {}):
            above = find(above.parent)
        if above is None or above.is_root:
            continue
        limit = (above.spec.capability or {})[name]
        if _nanos(amount) > _nanos(limit):
            text = (
                f"spec.capability: {name} {amount}; allowed: {limit}, as queue"
                f" {above.metadata.name} has"
            )
            return Problem("CapabilityTooLarge", text)
    return None


def _of_sums(queue: Queue, below: Sequence[Queue]) -> Problem | None:
    for field, own, parts in (
        ("deserved", queue.spec.deserved, [one.spec.deserved for one in below]),
        ("guarantee", queue.guarantee, [one.guarantee for one in below]),
    ):
        for name in sorted({name for part in parts for name in part or {}}):
            total = sum(_nanos((part or {}).get(name, 0)) for part in parts)
            limit = (own or {}).get(name, 0)
            if total > _nanos(limit):
                text = (
                    f"spec.{field}: the queues below have more {name} together than the {limit}"
                    " of this queue"
                )
                return Problem("SumTooLarge", text)
    return None


def _of_jobs(below: Sequence[Queue], counts: Mapping[str, int]) -> Problem | None:
    if not below or not any(counts.get(phase) for phase in _UNFINISHED):
        return None
    text = (
        f"the queue has PodGroups and queues below it, such as {below[0].metadata.name};"
        " allowed: PodGroups in queues without queues below them"
    )
    return Problem("JobsAboveQueues", text)


def _nanos(amount: Quantity) -> int:
    """An invalid amount counts as 0."""
    try:
        return nanos(amount)
    except FieldError:
        return 0
