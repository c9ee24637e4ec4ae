"""Looks up pods by name while a session runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pumice.core.cache.assumptions import Assumption
from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.tasks import Task
from pumice.core.model.pod import Pod
from pumice.core.model.status import TaskStatus, status_of


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of one pod; a pending pod of another scheduler has no status."""

    uid: str
    name: str
    # Empty: no job.
    job: str = ""
    status: TaskStatus | None = None
    node_name: str = ""
    # Scheduling gates, except Volcano's own gate.
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodLookup:
    """Finds pods on any thread while a session runs, without copying them.

    A session changes tasks, but not pods: the status of a pod before the session follows from the
    pod, or from the assumption about it. The caller must check afterwards that the session still
    runs.
    """

    _tasks: Mapping[str, Task]
    _foreign: Mapping[str, Pod]
    _assumptions: Sequence[Assumption]

    @classmethod
    def of(cls, cache: ClusterCache) -> PodLookup:
        return cls(cache.tasks, cache.foreign, cache.assumptions.all_open())

    def find(self, namespace: str, name: str) -> PodState | None:
        # Copied in one step, because the owner may change it at the same time.
        tasks = list(self._tasks.values())
        found = [task for task in tasks if task.name == name and task.pod.namespace == namespace]
        if found:
            # Of two pods with the same name, the newer one.
            return self._state_of(max(found, key=lambda each: each.order_key))
        for pod in list(self._foreign.values()):
            if pod.name == name and pod.namespace == namespace:
                return PodState(pod.uid, pod.name)
        return None

    def _state_of(self, task: Task) -> PodState:
        pod = task.pod
        status, node_name = status_of(pod), pod.node_name
        for assumption in self._assumptions:
            if assumption.pod_uid == pod.uid:
                status, node_name = assumption.status, assumption.node_name
        gates = () if task.only_volcano_gate else pod.spec.scheduling_gates
        return PodState(pod.uid, pod.name, task.job_id, status, node_name, gates)
