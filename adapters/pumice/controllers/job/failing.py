"""The annotation that says since when a task restarts too often, for policies with a timeout."""

from collections.abc import Sequence

from pumice.controllers.job.lifecycle import (
    TASK_FAILED,
    Answer,
    failing_pods,
    failing_since_ms,
    has_timeouts,
)
from pumice.controllers.job.times import milliseconds, shown_exactly
from pumice.controllers.job.types import FAILING_SINCE, JobSpec, Pod
from pumice.controllers.resources import PODS
from pumice.controllers.runtime.acts import Patch


def failing_marks(
    spec: JobSpec, version: int, pods: Sequence[Pod], found: Sequence[Answer], now_ms: int
) -> tuple[Patch, ...]:
    """Writes the time when a timeout begins, and removes the time when the task has recovered."""
    if not has_timeouts(spec):
        return ()
    waiting = {
        one.event.task: one.event.pod
        for one in found
        if one.event.event == TASK_FAILED and one.is_delayed
    }
    marked = [pod for pod in pods if pod.metadata.annotation(FAILING_SINCE)]
    if not waiting and not marked:
        return ()
    failing = failing_pods(spec, version, pods)
    acts = [
        _patch(pod, None)
        for pod in marked
        if pod.task not in failing and not pod.metadata.is_terminating
    ]
    for task, name in waiting.items():
        if not any(map(_is_marked, failing[task])):
            since = shown_exactly(failing_since_ms(failing[task], now_ms))
            acts += [_patch(pod, since) for pod in failing[task] if pod.metadata.name == name]
    return tuple(acts)


def _is_marked(pod: Pod) -> bool:
    """Whether a pod has a time that can be read: users can change annotations."""
    return milliseconds(pod.metadata.annotation(FAILING_SINCE)) > 0


def _patch(pod: Pod, since: str | None) -> Patch:
    body = {"metadata": {"annotations": {FAILING_SINCE: since}}}
    return Patch(PODS, *pod.metadata.key, pod.metadata.uid, body)
