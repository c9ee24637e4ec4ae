"""Lifecycle events of a Job, and the policies that answer them.

Events are read from the state: a failed pod is an event for as long as it is there, and a process that
was killed finds it again. Only evictions, which leave no trace, are remembered by the controller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pumice.controllers.job.times import milliseconds
from pumice.controllers.job.types import Action, JobSpec, Pod, PodGroup, Policy, Task
from pumice.manifests.golang import parse_duration_ns

ANY: Final = "*"
POD_PENDING: Final = "PodPending"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that was deleted by somebody else."""

    task: str
    pod: str
    uid: str
    version: int
    partition: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """Something that a policy may answer."""

    event: str
    since_ms: int
    task: str = ""
    pod: str = ""
    partition: str = ""
    exit_codes: tuple[int, ...] = ()

    def __str__(self) -> str:
        about = f"pod {self.pod}" if self.pod else f"task {self.task}" if self.task else "PodGroup"
        return f"{self.event} of {about}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The action of the policy that matched an event, and when it is due."""

    event: LifecycleEvent
    action: Action
    due_ms: int
    is_delayed: bool


def answers(
    spec: JobSpec,
    version: int,
    pods: Sequence[Pod],
    group: PodGroup | None,
    evictions: Iterable[Eviction],
    failing_ms: Mapping[str, int] | None = None,
) -> list[Answer]:
    """All events that a policy answers with an action, those first that are due first.

    `failing_ms` says since when tasks restart too often: no field of a pod does.
    """
    if not spec.policies and not any(task.policies for task in spec.tasks or ()):
        return []
    found = []
    by_name = {pod.metadata.name: pod for pod in pods}
    for event in _events(spec, version, pods, group, evictions, failing_ms or {}):
        answer = _answer(spec, event)
        if answer is None or answer.action is Action.SYNC:
            continue
        if event.event == POD_EVICTED and not _still_matters(by_name.get(event.pod), answer):
            continue
        found.append(answer)
    return sorted(found, key=lambda answer: answer.due_ms)


def _still_matters(replacement: Pod | None, answer: Answer) -> bool:
    """A replacement ends an eviction; a delayed answer waits until the replacement runs."""
    if replacement is None:
        return True
    return answer.is_delayed and replacement.status.phase == "Pending"


def _events(
    spec: JobSpec,
    version: int,
    pods: Sequence[Pod],
    group: PodGroup | None,
    evictions: Iterable[Eviction],
    failing_ms: Mapping[str, int],
) -> Iterator[LifecycleEvent]:
    for one in evictions:
        if one.version >= version:
            yield LifecycleEvent(POD_EVICTED, one.at_ms, one.task, one.pod, one.partition)
    current = _current(pods, version)
    for pod in current:
        if pod.status.phase == "Failed":
            yield _pod_event(POD_FAILED, pod)
    for task in spec.tasks or ():
        mine = [pod for pod in pods if pod.task == task.name]
        yield from _task_events(task, mine, current, failing_ms.get(task.name, 0))
    if group is not None and group.status.phase == "Unknown" and not group.metadata.is_terminating:
        times = [one.last_transition_time or "" for one in group.status.conditions or ()]
        since = max(times, default="") or group.metadata.creation_timestamp
        yield LifecycleEvent(UNKNOWN, milliseconds(since))
    for pod in current:
        if pod.status.phase == "Pending":
            created = milliseconds(pod.metadata.creation_timestamp)
            yield LifecycleEvent(POD_PENDING, created, pod.task, pod.metadata.name, pod.partition)


def _current(pods: Sequence[Pod], version: int) -> list[Pod]:
    """The pods that raise events."""
    return [
        pod
        for pod in pods
        if not pod.metadata.is_terminating and not pod.is_marked and pod.version >= version
    ]


def failing_tasks(spec: JobSpec, version: int, pods: Sequence[Pod]) -> list[str]:
    """Names of the tasks whose containers have restarted too often."""
    current = _current(pods, version)
    return [task.name for task in spec.tasks or () if _restarting(task, current)]


def _restarting(task: Task, pods: Iterable[Pod]) -> list[Pod]:
    """The live pods of a task, if their containers have restarted too often; else none."""
    alive = [p for p in pods if p.task == task.name and p.status.phase in ("Running", "Pending")]
    return alive if sum(pod.restarts for pod in alive) >= task.max_retry else []


def _pod_event(event: str, pod: Pod) -> LifecycleEvent:
    return LifecycleEvent(
        event,
        milliseconds(pod.changed_at),
        pod.task,
        pod.metadata.name,
        pod.partition,
        pod.exit_codes if event == POD_FAILED else (),
    )


def _task_events(
    task: Task, pods: Sequence[Pod], current: Sequence[Pod], failing_ms: int
) -> Iterator[LifecycleEvent]:
    mine = [pod for pod in current if pod.task == task.name]
    succeeded = [pod for pod in pods if pod.status.phase == "Succeeded"]
    # A pod that was kept over a resume completes nothing again.
    fresh = [pod for pod in mine if pod.status.phase == "Succeeded"]
    if fresh and len(succeeded) >= task.replicas > 0:
        last = max(fresh, key=lambda pod: (milliseconds(pod.changed_at), pod.metadata.name))
        yield _pod_event(TASK_COMPLETED, last)
    if restarting := _restarting(task, mine):
        worst = max(restarting, key=lambda pod: (pod.restarts, pod.metadata.name))
        event = _pod_event(TASK_FAILED, worst)
        yield replace(event, since_ms=failing_ms) if failing_ms else event


def _answer(spec: JobSpec, event: LifecycleEvent) -> Answer | None:
    """The first policy that matches: those of the task, then those of the job."""
    for task in spec.tasks or ():
        if event.task and task.name == event.task:
            for policy in task.policies or ():
                if _matches(policy, event):
                    return _answer_of(policy, event)
    for policy in spec.policies or ():
        if _matches(policy, event):
            return _answer_of(policy, event)
    return None


def _matches(policy: Policy, event: LifecycleEvent) -> bool:
    if delay_ms(policy) is None:
        return False
    events = [*(policy.events or ()), policy.event]
    # Success is nothing that a policy for any event waits for.
    is_named = event.event in events or (ANY in events and event.event != TASK_COMPLETED)
    if is_named and (event.event != POD_PENDING or policy.timeout is not None):
        return True
    return policy.exit_code is not None and policy.exit_code in event.exit_codes


def delay_ms(policy: Policy) -> int | None:
    """The timeout of a policy, 0 without one; None: it cannot be read."""
    if not policy.timeout:
        return 0
    nanoseconds = parse_duration_ns(policy.timeout)
    return None if nanoseconds is None else max(0, nanoseconds // 1_000_000)


def _answer_of(policy: Policy, event: LifecycleEvent) -> Answer:
    delay = delay_ms(policy) or 0
    action = Action.read(policy.action)
    return Answer(event, action, event.since_ms + delay if delay else 0, delay > 0)
