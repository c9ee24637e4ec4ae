"""Affinity between pods, as in the Kubernetes version that kube-batch used."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.model.pod import PodAffinityTerm
from pumice.core.session.hooks import Rows
from pumice.core.session.session import Session


def required_refused(session: Session, task: Task) -> Mask | None:
    """Nodes that required affinity or anti-affinity excludes; None: there is no such term."""
    spec = task.class_.spec
    refused: list[Mask] = []
    if spec.required_affinity:
        refused.append(_violates_affinity(session, task))
    if spec.required_anti_affinity:
        refused.append(_near_all(session, task, spec.required_anti_affinity)[0])
    for existing in session.pods.anti_affinity_against(task):
        column = session.labels.column(existing.term.topology_key)
        refused.append(column.in_domains_of(list(existing.rows)))
    return np.logical_or.reduce(refused) if refused else None


def _violates_affinity(session: Session, task: Task) -> Mask:
    near, anywhere = _near_all(session, task, task.class_.spec.required_affinity)
    # The first of a series of pods that want to be together may go anywhere.
    if not anywhere and session.pods.matches_own_affinity(task):
        return np.zeros_like(near)
    return ~near


def _near_all(
    session: Session, task: Task, terms: tuple[PodAffinityTerm, ...]
) -> tuple[Mask, bool]:
    """Nodes that share the topology domains of all terms with a pod that matches all terms.

    One pod must match all terms, for anti-affinity too.
    """
    nowhere: Mask = np.zeros(len(session.table), dtype=np.bool_)
    pods = session.pods.matching_all(task.pod.namespace, terms)
    if pods is None or not pods.total:
        return nowhere, False
    place: Counts = np.zeros(len(session.table), dtype=np.int64)
    labelled: Mask = ~nowhere
    for term in terms:
        column = session.labels.column(term.topology_key)
        place = place * (len(column.values) + 1) + column.codes
        labelled &= column.present
    there = np.unique(place[labelled & (pods.counts > 0)])
    near: Mask = labelled & np.isin(place, there)
    return near, True


def preferred_weights(session: Session, task: Task, rows: Rows) -> Counts | None:
    """The sum of all preferences for each candidate; None where there are none.

    Only pods on candidates count. Pods that must be near the task count as if they preferred it.
    """
    spec = task.class_.spec
    weights: Counts = np.zeros(len(rows), dtype=np.int64)
    is_any = False
    for sign, terms in ((1, spec.preferred_affinity), (-1, spec.preferred_anti_affinity)):
        for weighted in terms:
            pods = session.pods.matching_all(task.pod.namespace, (weighted.term,))
            if pods is not None and pods.total:
                is_any = True
                counts = pods.counts[rows].astype(np.int64)
                weights += _spread(session, weighted.term, rows, sign * weighted.weight * counts)
    for existing in session.pods.preferences_about(task):
        is_any = True
        here = np.zeros(len(session.table), dtype=np.int64)
        for row, count in existing.rows.items():
            here[row] = count * existing.weight
        weights += _spread(session, existing.term, rows, here[rows])
    return weights if is_any else None


def _spread(session: Session, term: PodAffinityTerm, rows: Rows, weights: Counts) -> Counts:
    """The sum of the weights of all candidates in the topology domain of each candidate."""
    codes = session.labels.column(term.topology_key).codes[rows]
    sums = np.zeros(int(codes.max(initial=-1)) + 2, dtype=np.int64)
    np.add.at(sums, codes, weights)
    # The last entry answers for nodes without the label: code -1 reads it.
    sums[-1] = 0
    return sums[codes]
