"""The nearest nodes of a pending pod, and the scores of a placed pod."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.tasks import Task
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.session import Session
from pumice.server.explaining.node_details import with_details, with_figures
from pumice.v1 import explanation_pb2

# The cost of a refusal. It exceeds any shortage, because resources become free and labels stay.
_REFUSAL = 1_000.0


def nearest_nodes(session: Session, task: Task, count: int) -> list[explanation_pb2.NearestNode]:
    """The nodes with the fewest refusals and shortages, best first."""
    view, table = session.view(task), session.table
    costs = np.zeros(len(table))
    for column, need in view.needs:
        lack = np.maximum(0.0, need - table.idle[column])
        costs = costs + lack / max(need, 1.0)
    refusals = [each for found in session.feasibility.refusals(task, view) for each in found]
    for refusal in refusals:
        costs = costs + _REFUSAL * refusal.rows
    everywhere = session.feasibility.why_not_anywhere(task)
    found, asked = [], dict(task.class_.amounts)
    for row in np.argsort(costs, kind="stable")[:count]:
        nearest = explanation_pb2.NearestNode(node=table.names[row])
        for name, (column, need) in zip(view.need_names, view.needs, strict=True):
            have = float(table.idle[column, row])
            if have < need:
                # The requested amount, even if a smaller one is enough.
                nearest.shortages.add(
                    resource=name, need=asked.get(name, int(need)), have=int(have)
                )
        node = session.cache.nodes.get(nearest.node)
        spec = task.class_.spec
        reasons = [with_figures(r.reason, session, nearest.node) for r in refusals if r.rows[row]]
        detailed = [with_details(reason, spec, node) for reason in reasons]
        nearest.reasons.extend(dict.fromkeys(detailed))
        if everywhere is not None:
            nearest.reasons.append(everywhere)
        found.append(nearest)
    return found


def too_large(session: Session, task: Task) -> list[explanation_pb2.ResourceShortage]:
    """Resources of which a pod requests more than any empty node has."""
    table, asked = session.table, dict(task.class_.amounts)
    found = []
    view = session.view(task)
    for name, (column, need) in zip(view.need_names, view.needs, strict=True):
        most = float(table.allocatable[column].max(initial=0.0))
        if most < need:
            lack = explanation_pb2.ResourceShortage(
                resource=name, need=asked.get(name, int(need)), have=int(most)
            )
            found.append(lack)
    return found


def placement_of(session: Session, task: Task, count: int) -> explanation_pb2.Placement:
    """The scores of nodes for a placed pod, computed as if the pod were not placed."""
    placement = explanation_pb2.Placement(pod=task.name)
    placement.node.node = task.node_name
    row = session.table.row_of(task.node_name)
    if row is None:
        return placement
    view = session.view(task)
    feasible = session.feasibility.allows(task, view) & view.fits_idle
    feasible[row] = True
    rows = np.flatnonzero(feasible)
    placement.feasible_node_count = len(rows)
    scores = session.choice.scores(task, view, rows)
    own = int(np.searchsorted(rows, row))
    before = view.by_numpy.evaluate(_without(session, task, row), np.array([row], dtype=np.intp))
    scores[own] += float(before.order[0] + before.batch[0] - view.order[row] - view.batch[row])
    ranked = [own, *(int(i) for i in np.argsort(-scores, kind="stable") if i != own)][: count + 1]
    parts = _parts(session, task, rows, ranked)
    for place, index in enumerate(ranked):
        scored = placement.node if place == 0 else placement.runners_up.add()
        scored.node = session.table.names[rows[index]]
        scored.score = float(scores[index])
        for plugin, values in parts:
            scored.parts.add(plugin=plugin, score=float(values[place]))
    return placement


def _without(session: Session, task: Task, row: int) -> NodeRows:
    index = np.array([row], dtype=np.intp)
    return NodeRows(session.table, index, task.class_, np.array([-1.0]))


def _parts(
    session: Session, task: Task, rows: NDArray[np.intp], ranked: list[int]
) -> list[tuple[str, NDArray[np.float64]]]:
    """The scores of each plugin for some rows. The first row is the node of the pod."""
    index = rows[ranked]
    ahead = np.zeros(len(index))
    ahead[0] = -1.0
    without_pod = NodeRows(session.table, index, task.class_, ahead)
    sums: dict[str, NDArray[np.float64]] = {}

    def add(plugin: str, values: NDArray[np.float64]) -> None:
        sums[plugin] = sums.get(plugin, np.zeros(len(index))) + values

    chains = session.chains
    for plugin, scores in session.view(task).class_scores():
        add(plugin, scores[index])
    for point in ("row_score", "row_batch_score"):
        for plugin, function in chains.named(point):
            add(plugin, function(task.class_, without_pod))
    for point in ("task_score", "task_batch_score"):
        for plugin, function in chains.named(point):
            # Computed for all candidates, because such scores compare them.
            values = function(task, rows)
            if values is not None:
                add(plugin, values[ranked])
    return sorted(sums.items())
