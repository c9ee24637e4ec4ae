"""Where a task fits in kube-batch's mode: on idle or on releasing resources, never on both together.

What a node is releasing shrinks with every task that is pipelined there. It is the difference between
what will be idle and what is idle now, so no further sums are needed.
"""

from __future__ import annotations

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.fit import FitErrors, Mask, Refusal
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.feasibility.plain import CLAIMS_NOT_ALLOCATED
from pumice.core.session.feasibility.views import ClassView

OUT_OF_SYNC = "node(s) were out of sync"


def _has_room(session: KubeBatchSession, view: ClassView) -> Mask:
    """Nodes with enough idle or enough releasing resources."""
    return view.fits_idle | view.fits(session.table.future - session.table.idle)


def feasible(session: KubeBatchSession, task: Task, view: ClassView) -> Mask:
    """Nodes that pass all predicates and have enough idle or enough releasing resources."""
    return allowed_nodes(session, task, view) & _has_room(session, view)


def allowed_nodes(session: KubeBatchSession, task: Task, view: ClassView) -> Mask:
    """Nodes in sync that pass all predicates; resources are not checked."""
    mask = session.feasibility.allows(task, view) & session.in_sync
    for refusal in _claim_refusals(session, task):
        mask &= ~refusal.rows
    return mask


def _claim_refusals(session: KubeBatchSession, task: Task) -> list[Refusal]:
    """Refusals because of claims, which no plugin of kube-batch checks."""
    spec, volumes = task.class_.spec, session.volumes
    problem = CLAIMS_NOT_ALLOCATED if spec.resource_claims else None
    if problem is None:
        if not spec.volumes:
            return []
        problem = volumes.why_not_anywhere(task)
        if problem is None:
            return volumes.refusals(task)
    everywhere = np.ones(len(session.table), dtype=np.bool_)
    return [Refusal(problem, everywhere, unresolvable=True)]


def refuse(session: KubeBatchSession, author: str, job: Job, task: Task, view: ClassView) -> None:
    """Explains that no node takes a task of the job."""
    errors = job.fit_errors[task.uid] = _fit_errors(session, task, view)
    nodes = errors.as_counts()
    session.explain(job, Reason(author, ReasonCode.NO_NODE_FITS, task=task.name, nodes=nodes))


def _fit_errors(session: KubeBatchSession, task: Task, view: ClassView) -> FitErrors:
    """Why no node takes the task; each node gives one reason."""
    table, counts = session.table, {}
    left = session.in_sync.copy()
    if not left.all():
        counts[OUT_OF_SYNC] = int(np.count_nonzero(~left))
    short = left & ~_has_room(session, view)
    left &= ~short
    for name, (column, need) in zip(view.need_names, view.needs, strict=True):
        lacking = short & (table.idle[column] < need)
        if lacking.any():
            counts[f"Insufficient {name}"] = int(np.count_nonzero(lacking))
            short &= ~lacking
    refused = session.feasibility.refusals(task, view)
    for refusals in (*refused, _claim_refusals(session, task)):
        for refusal in refusals:
            rows = refusal.rows & left
            if rows.any():
                number = counts.get(refusal.reason, 0) + int(np.count_nonzero(rows))
                counts[refusal.reason] = number
                left &= ~rows
    return FitErrors(len(table), tuple(counts.items()))
