"""How much of the resources in use queues hold within their weighted fair shares."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pumice.evaluation.usage import Floats, Usage


def fairness(usage: Usage, weights: Mapping[str, int]) -> Floats:
    """At each point, the part of the dominant shares that no queue holds beyond its fair share.

    Fair shares divide what is in use by weight, and give no queue more than it wants (weighted
    max-min fairness). 1 where nothing is in use.
    """
    queues = [queue for queue in usage.queues if queue]
    if not queues or not usage.resources:
        return np.ones(usage.waiting_pods.shape)
    held = np.array([usage.shares(queue).max(axis=0) for queue in queues])
    wanted = np.array([usage.wanted(queue).max(axis=0) for queue in queues])
    given = np.array([float(max(weights.get(queue, 1), 0)) for queue in queues])
    totals = held.sum(axis=0)
    result = np.ones(len(totals))
    for point, total in enumerate(totals):
        if total > 0:
            fair = _filled(total, np.maximum(wanted[:, point], held[:, point]), given)
            result[point] = 1 - np.maximum(held[:, point] - fair, 0).sum() / total
    return result


def _filled(total: float, wanted: Floats, weights: Floats) -> Floats:
    """Divides a total by weight; what a queue does not want goes to the others."""
    given = np.zeros(len(wanted))
    is_open = (wanted > 0) & (weights > 0)
    left = total
    while left > 0 and is_open.any():
        share: Floats = left * weights * is_open / weights[is_open].sum()
        is_full = is_open & (share >= wanted - given)
        if not is_full.any():
            return given + share
        left -= float((wanted - given)[is_full].sum())
        given[is_full] = wanted[is_full]
        is_open &= ~is_full
    return given
