"""conformance: system pods are never evicted."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import VictimRule
from pumice.core.session.session import Session

_CRITICAL = frozenset(("system-cluster-critical", "system-node-critical"))
_SYSTEM_NAMESPACE = "kube-system"


class ConformancePlugin:
    """Removes system pods from the candidates for eviction."""

    name: ClassVar[str] = "conformance"
    required: ClassVar[bool] = True

    def __init__(self, options: PluginOptions) -> None:
        pass

    def open(self, session: Session) -> None:
        hooks = session.hooks
        rule = VictimRule(_evictable, mark=lambda job: job.namespace != _SYSTEM_NAMESPACE)
        hooks.preemptable[self.name] = rule
        hooks.reclaimable[self.name] = rule
        hooks.lasts[self.name] = lambda _point: True
        hooks.unified_evictable[self.name] = lambda _action, job, tasks: _evictable(job, tasks)


def _evictable(_preemptor: Task | Job, candidates: list[Task]) -> tuple[list[Task], int]:
    evictable = [
        task
        for task in candidates
        if task.pod.namespace != _SYSTEM_NAMESPACE
        and task.class_.spec.priority_class_name not in _CRITICAL
    ]
    return evictable, PERMIT
