"""Which tasks may preempt."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.model.pod import Pod
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.session import Session

_DISRUPTED = "DisruptionTarget"
_BY_SCHEDULER = "PreemptionByScheduler"


def why_not_eligible(session: Session, task: Task, view: ClassView) -> str | None:
    """Why a task may not preempt, for example because it waits for its nominated node; None: it may."""
    if task.class_.spec.never_preempts:
        return "preemption policy is Never"
    nominated = task.pod.nominated_node_name
    if not nominated:
        return None
    row = session.table.row_of(nominated)
    if row is None:
        return "nominated node is not known"
    refusals = session.feasibility.refused_by(task, view, row, nominated=True)
    if isinstance(refusals, str):
        return refusals
    if not refusals:
        return "nominated node is already feasible"
    if any(refusal.unresolvable for refusal in refusals):
        return None
    for other in session.table.rows[row].tasks_in_order():
        if other.pod.priority < task.pod.priority and _is_preempted(other.pod):
            return "pods on the nominated node are being preempted"
    return None


def _is_preempted(pod: Pod) -> bool:
    if not pod.terminating:
        return False
    for condition in pod.conditions:
        if condition.type == _DISRUPTED:
            return condition.status == "True" and condition.reason == _BY_SCHEDULER
    return False
