"""Conditions of PodGroups and pods."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Event, PodConditionChanged
from pumice.core.model.group import PodGroupCondition
from pumice.core.session.closing.messages import UNSCHEDULABLE, task_reason
from pumice.core.session.session import Session


def with_condition(
    conditions: tuple[PodGroupCondition, ...], new: PodGroupCondition
) -> tuple[PodGroupCondition, ...]:
    """One condition a type: the new one takes the old one's place."""
    if any(c.type == new.type for c in conditions):
        return tuple(new if c.type == new.type else c for c in conditions)
    return (*conditions, new)


def is_found_unschedulable(job: Job, conditions: Iterable[PodGroupCondition]) -> bool:
    """Whether this session found the job unschedulable.

    Only a condition that the session itself has set counts, never one that the cluster stores.
    """
    stored = job.status.conditions
    return any(
        c.type == UNSCHEDULABLE and c.status == "True" and not any(c is s for s in stored)
        for c in conditions
    )


def pod_condition(session: Session, job: Job, task: Task, text: str) -> PodConditionChanged | None:
    # A gated pod has a condition of the API server's, which is left alone.
    if task.gated:
        return None
    reason, message, nominated = task_reason(job, task)
    changes = tell_pod(session, task, reason, message or text, nominated)
    return changes[0] if changes else None


def tell_pod(
    session: Session, task: Task, reason: str, message: str, nominated: str = ""
) -> list[PodConditionChanged]:
    """Changes the pod's condition and records an event, unless the condition says so already."""
    pod = task.pod
    same = any(
        c.type == "PodScheduled" and (c.status, c.reason, c.message) == ("False", reason, message)
        for c in pod.conditions
    )
    if same and (not nominated or nominated == pod.nominated_node_name):
        return []
    if task.reported_condition == (reason, message, nominated):
        # It was reported and is still being written.
        return []
    task.reported_condition = (reason, message, nominated)
    session.events.append(
        Event("Pod", pod.namespace, pod.name, pod.uid, True, "FailedScheduling", message)
    )
    return [PodConditionChanged(pod.namespace, pod.name, pod.uid, reason, message, nominated)]
