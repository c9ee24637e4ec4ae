"""zone-affinity: keeps the pods of a job in the zone of its first pods."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, Limit, PluginOptions, boolean, integer, text
from pumice.core.model.fit import Refusal, node_refusal
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

__all__ = ["ZoneAffinityPlugin"]

_FULL_SCORE = 100


class ZoneAffinityArguments(Arguments):
    """The arguments of zone-affinity."""

    label = text(
        "zone-affinity.label", "topology.kubernetes.io/zone", "the node label with the zone"
    )
    weight = integer(
        "zone-affinity.weight",
        1,
        "the weight of the score",
        Limit(at_least=0),
    )
    strict = boolean(
        "zone-affinity.strict",
        "excludes nodes of other zones, instead of lowering their score",
        default=False,
    )


class ZoneAffinityPlugin:
    """Prefers, or with ``zone-affinity.strict`` requires, the zone in which a job already has pods."""

    name: ClassVar[str] = "zone-affinity"
    api: ClassVar[int] = 1
    arguments: ClassVar[type[Arguments]] = ZoneAffinityArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = ZoneAffinityArguments(options.arguments)
        self._label = arguments.label
        self._weight = arguments.weight
        self._strict = arguments.strict

    def open(self, session: Session) -> None:
        """Registers the functions of the plugin; called at the beginning of a session."""
        self._session = session
        nodes = (session.cache.nodes.get(name) for name in session.table.names)
        self._zones = [node.labels.get(self._label, "") if node else "" for node in nodes]
        self._codes = np.array(self._zones, dtype=object)
        if self._weight:
            session.hooks.task_score[self.name] = self._scores
        if self._strict:
            session.hooks.node_predicate[self.name] = self._why_not

    def _zone_of_job(self, task: Task) -> str:
        """The zone with most of the job's pods; ties are broken by name."""
        job = self._session.jobs[task.job_id]
        rows = (self._session.table.row_of(member.node_name) for member in job.index)
        zones = Counter(self._zones[row] for row in rows if row is not None)
        zones.pop("", None)
        return min(zones, key=lambda zone: (-zones[zone], zone), default="")

    def _scores(self, task: Task, rows: Rows) -> Scores | None:
        """One score per candidate; None if all candidates are equal."""
        zone = self._zone_of_job(task)
        if not zone:
            return None
        return np.where(self._codes[rows] == zone, float(_FULL_SCORE * self._weight), 0.0)

    def _why_not(self, task: Task, node: str) -> Refusal | None:
        """Called for each node. Other pods may move, so an eviction can resolve the refusal."""
        zone, row = self._zone_of_job(task), self._session.table.row_of(node)
        if not zone or row is None or self._zones[row] == zone:
            return None
        return node_refusal("node(s) outside the zone of the job", unresolvable=False)
