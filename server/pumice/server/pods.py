"""Where a cluster's pods stand between two sessions, looked up beside a running one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pumice.core.cache.assumptions import Assumption
from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.tasks import Task
from pumice.core.model.pod import Pod
from pumice.core.model.status import TaskStatus, status_of


@dataclass(frozen=True, slots=True)
class StandingPod:
    """One pod; a pod of another scheduler that waits has no status."""

    uid: str
    name: str
    # Empty: it belongs to none.
    job: str = ""
    status: TaskStatus | None = None
    node_name: str = ""
    # Scheduling gates of others than us.
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StandingPods:
    """Finds pods on any thread while a session runs, without a copy of them.

    A session moves tasks about, but leaves their pods alone: where a pod stood when the session
    began is what the pod says, or what had been decided about it and has not shown yet. After the
    session that is no longer so; whoever looks has to ask afterwards whether it still runs.
    """

    _tasks: Mapping[str, Task]
    _foreign: Mapping[str, Pod]
    _decided: Sequence[Assumption]

    @classmethod
    def of(cls, cache: ClusterCache) -> StandingPods:
        return cls(cache.tasks, cache.foreign, cache.assumptions.all_open())

    def find(self, namespace: str, name: str) -> StandingPod | None:
        # Listed at one stroke, since the owner may go on meanwhile.
        tasks = list(self._tasks.values())
        found = [task for task in tasks if task.name == name and task.pod.namespace == namespace]
        if found:
            # Of two pods of one name the newer one.
            return self._standing(max(found, key=lambda each: each.order_key))
        for pod in list(self._foreign.values()):
            if pod.name == name and pod.namespace == namespace:
                return StandingPod(pod.uid, pod.name)
        return None

    def _standing(self, task: Task) -> StandingPod:
        pod = task.pod
        status, node_name = status_of(pod), pod.node_name
        for decided in self._decided:
            if decided.pod_uid == pod.uid:
                status, node_name = decided.status, decided.node_name
        gates = () if task.only_volcano_gate else pod.spec.scheduling_gates
        return StandingPod(pod.uid, pod.name, task.job_id, status, node_name, gates)
