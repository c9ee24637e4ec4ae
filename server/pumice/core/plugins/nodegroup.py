"""nodegroup: keeps the jobs of a queue on the node groups of the queue, within its limits.

The affinity of the queue determines the feasible nodes and their scores. An annotation of the queue
can limit the resources that its jobs use in each group.
"""

from __future__ import annotations

import json
from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, PluginOptions, boolean
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.group import NodeGroupAffinity, Queue
from pumice.core.model.memo import Memo
from pumice.core.model.quantities import parse_amounts
from pumice.core.model.resources import EPSILON, Resources
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus
from pumice.core.session.hooks import EventHandler, Scores
from pumice.core.session.policies import ClassRule, PlainRule
from pumice.core.session.session import Session

NODE_GROUP = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"
_ROOT = "root"
_REQUIRED_SCORE, _PREFERRED_SCORE, _AVOIDED_SCORE = 100.0, 50.0, -1.0
# The statuses of tasks that count against limits.
_COUNTED = (*sorted(HOLDS_RESOURCES), TaskStatus.PIPELINED)

BAD_LIMITS = "node group resource limit annotation invalid"
NO_LABEL = "node group label not found"
NO_AFFINITY = "node group affinity not specified"
NOT_ALLOWED = "node does not satisfy the node group affinity"
ABOVE_LIMIT = "node group resource limit exceeded"


@dataclass(frozen=True, slots=True)
class QueueGroups:
    """The facet of a task: the node groups of its queue."""

    affinity: NodeGroupAffinity | None
    has_invalid_limits: bool = False


class NodeGroupArguments(Arguments):
    """How the affinity of a queue is applied."""

    strict = boolean(
        "strict",
        "jobs of a queue without affinity run on no node, instead of on nodes without a group",
        default=True,
    )
    in_order = boolean(
        "enablePreferredOrder",
        "the first preferred group of a queue gets the highest score, instead of all the same",
        default=False,
    )


class NodeGroupPlugin:
    """Keeps the jobs of a queue on the node groups that the queue's affinity names."""

    name: ClassVar[str] = "nodegroup"
    arguments: ClassVar[type[Arguments]] = NodeGroupArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = NodeGroupArguments(options.arguments)
        self._strict, self._in_order = arguments.strict, arguments.in_order
        self._inherits = options.enabled("enableHierarchy")
        self._queues: dict[str, QueueGroups] = {}
        # By queue: the limits by node group, and what its tasks use of each group.
        self._limits: dict[str, Mapping[str, Mapping[str, int]]] = {}
        self._used = Memo(self._count_all)

    def open(self, session: Session) -> None:
        self._session = session
        for name, queue in session.queues.items():
            limits = read_limits(queue)
            affinity = self._affinity(queue) if self._inherits else queue.affinity
            self._queues[name] = QueueGroups(affinity, has_invalid_limits=limits is None)
            if limits:
                self._limits[name] = limits
        hooks, table = session.hooks, session.table
        version = lambda: table.labels_version  # noqa: E731
        hooks.class_predicate[self.name] = ClassRule(self._refusals, version, self._facet)
        hooks.class_score[self.name] = ClassRule(self._scores, version, self._facet)
        if self._limits:
            hooks.task_predicate[self.name] = self._above_limit
            hooks.is_plain[self.name] = PlainRule(
                lambda _: None, lambda task: self._queue_of(task) not in self._limits
            )
            hooks.handlers.append(EventHandler(self._allocated, self._deallocated))

    def _affinity(self, queue: Queue) -> NodeGroupAffinity | None:
        """The affinity of the queue, or of its nearest ancestor that has one."""
        seen: set[str] = set()
        while queue.affinity is None and queue.name not in seen and queue.name != _ROOT:
            seen.add(queue.name)
            parent = self._session.queues.get(queue.parent or _ROOT)
            if parent is None:
                break
            queue = parent
        return queue.affinity

    def _facet(self, task: Task) -> QueueGroups:
        return self._queues.get(self._queue_of(task), _NO_GROUPS)

    def _queue_of(self, task: Task) -> str:
        job = self._session.jobs.get(task.job_id)
        return "" if job is None else job.queue

    def _rows_in(self, groups: Container[str]) -> Mask:
        """The nodes whose group is one of these."""
        return self._session.labels.column(NODE_GROUP).among(groups)

    def _refusals(self, _: TaskClass, facet: Hashable) -> list[Refusal]:
        assert isinstance(facet, QueueGroups)
        grouped = self._session.labels.column(NODE_GROUP).present
        if facet.has_invalid_limits:
            everywhere = np.ones(len(grouped), dtype=np.bool_)
            return [Refusal(BAD_LIMITS, everywhere, unresolvable=True)]
        affinity = facet.affinity
        if affinity is None or affinity == NodeGroupAffinity():
            refusals = [Refusal(NO_AFFINITY, grouped, unresolvable=True)]
            if self._strict:
                refusals.append(Refusal(NO_LABEL, ~grouped, unresolvable=True))
            return refusals
        allowed = self._rows_in((*affinity.required, *affinity.preferred))
        allowed &= ~self._rows_in(affinity.anti_required)
        # As in Volcano, a group with preferred anti-affinity is allowed, even with a required one too.
        allowed |= self._rows_in(affinity.anti_preferred)
        return [
            Refusal(NO_LABEL, ~grouped, unresolvable=True),
            Refusal(NOT_ALLOWED, grouped & ~allowed, unresolvable=True),
        ]

    def _scores(self, _: TaskClass, facet: Hashable) -> Scores:
        assert isinstance(facet, QueueGroups)
        scores: Scores = np.zeros(len(self._session.table))
        affinity = facet.affinity
        if affinity is None:
            return scores
        scores[self._rows_in(affinity.required)] += _REQUIRED_SCORE
        # A group that is listed twice has its last position.
        positions = {name: position for position, name in enumerate(affinity.preferred)}
        count = len(positions)
        for name, position in positions.items():
            part = (count - position) / count if self._in_order else 1.0
            scores[self._rows_in((name,))] += _PREFERRED_SCORE * part
        scores[self._rows_in(affinity.anti_preferred)] = _AVOIDED_SCORE
        return scores

    # Limits.

    def _above_limit(self, task: Task) -> list[Refusal] | None:
        queue = self._queue_of(task)
        if queue not in self._limits:
            return None
        used = self._used[queue]
        full = [
            group
            for group, limit in self._limits[queue].items()
            if _exceeds(used.get(group), task.request, limit)
        ]
        return [Refusal(ABOVE_LIMIT, self._rows_in(full), unresolvable=True)] if full else []

    def _count_all(self, queue: str) -> dict[str, Resources]:
        """What the queue's tasks use of each group."""
        used: dict[str, Resources] = {}
        for job in self._session.jobs.values():
            if job.queue == queue:
                for status in _COUNTED:
                    for task in job.index.with_status(status).values():
                        self._count(used, task)
        return used

    def _count(self, used: dict[str, Resources], task: Task) -> None:
        entry = self._session.table.entries.get(task.node_name)
        group = None if entry is None or entry.node is None else entry.node.labels.get(NODE_GROUP)
        if group is not None:
            used.setdefault(group, Resources()).add(task.request)

    def _allocated(self, task: Task) -> None:
        used = self._used.get(self._queue_of(task))
        if used is not None:
            self._count(used, task)

    def _deallocated(self, task: Task) -> None:
        # The tasks of the queue are counted again when its limits are next checked.
        self._used.pop(self._queue_of(task), None)


_NO_GROUPS = QueueGroups(None)


def read_limits(queue: Queue) -> Mapping[str, Mapping[str, int]] | None:
    """The limits of a queue by node group; None: the annotation is invalid."""
    text = queue.annotations.get(LIMITS, "")
    try:
        data = json.loads(text or "null")
    except ValueError:
        return None
    if data is None:
        return {}
    if not isinstance(data, dict):
        return None
    limits: dict[str, Mapping[str, int]] = {}
    for group, limit in data.items():
        amounts = parse_amounts({} if limit is None else limit)
        if amounts is None:
            return None
        limits[group] = amounts
    return limits


def _exceeds(used: Resources | None, request: Resources, limit: Mapping[str, int]) -> bool:
    future = request if used is None else used.clone().add(request)
    # As in all comparisons of resources, a difference below EPSILON does not count.
    return any(future.get(name) - allowed >= EPSILON for name, allowed in limit.items())
