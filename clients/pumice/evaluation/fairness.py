"""Fairness: the part of the used resources that is within the fair shares of queues."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pumice.evaluation.usage import Floats, Usage


def fairness(usage: Usage, weights: Mapping[str, int]) -> Floats:
    """At each point, the part of the dominant shares that is within the queues' fair shares.

    Fair shares divide the used resources by weight, up to the demand of each queue (weighted
    max-min fairness). The value is 1 if no resources are used.
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
    """Divides a total by weight, up to each queue's demand; the others share the rest."""
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
