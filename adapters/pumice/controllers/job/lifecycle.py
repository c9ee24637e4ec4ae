"""Lifecycle events of a Job, and the policies that answer them.

Events are read from the state: a failed pod is an event for as long as it is there, and a process that
was killed finds it again. Only evictions, which leave no trace, are remembered by the controller, until
the pod that replaces an evicted one says so in an annotation.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pumice.controllers.job.times import milliseconds
from pumice.controllers.job.types import (
    EVICTED_AT,
    FAILING_SINCE,
    Action,
    JobSpec,
    Pod,
    PodGroup,
    Policy,
    Task,
)
from pumice.patterns.golang import parse_duration_ns

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
    now_ms: int = 0,
) -> list[Answer]:
    """All events that a policy answers with an action, those first that are due first."""
    if not spec.policies and not any(task.policies for task in spec.tasks or ()):
        return []
    found = []
    by_name = {pod.metadata.name: pod for pod in pods}
    by_task = {task.name: task.policies or [] for task in spec.tasks or ()}
    for event in _events(spec, version, pods, group, evictions, now_ms):
        # Those of the task come first.
        answer = _answer([*by_task.get(event.task, ()), *(spec.policies or ())], event)
        if answer is None or answer.action is Action.SYNC:
            continue
        if event.event == POD_EVICTED and not _still_matters(by_name.get(event.pod), answer):
            continue
        found.append(answer)
    return sorted(found, key=lambda answer: answer.due_ms)


def has_timeouts(spec: JobSpec) -> bool:
    """Whether a policy answers an event only after some time."""
    policies = [*(spec.policies or ()), *(p for t in spec.tasks or () for p in t.policies or ())]
    return any(policy.timeout for policy in policies)


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
    now_ms: int,
) -> Iterator[LifecycleEvent]:
    current = _current(pods, version)
    yield from _evictions(evictions, current, version)
    for pod in current:
        if pod.status.phase == "Failed":
            yield _pod_event(POD_FAILED, pod)
    yield from _events_of_tasks(spec, pods, current, now_ms)
    if group is not None and group.status.phase == "Unknown" and not group.metadata.is_terminating:
        times = [one.last_transition_time or "" for one in group.status.conditions or ()]
        since = max(times, default="") or group.metadata.creation_timestamp
        yield LifecycleEvent(UNKNOWN, milliseconds(since))
    for pod in current:
        if pod.status.phase == "Pending":
            created = milliseconds(pod.metadata.creation_timestamp)
            yield LifecycleEvent(POD_PENDING, created, pod.task, pod.metadata.name, pod.partition)


def _evictions(
    evictions: Iterable[Eviction], current: Sequence[Pod], version: int
) -> Iterator[LifecycleEvent]:
    """Evictions that the controller remembers, and those that only a replacement tells of."""
    known = set()
    for one in evictions:
        known.add(one.pod)
        if one.version >= version:
            yield LifecycleEvent(POD_EVICTED, one.at_ms, one.task, one.pod, one.partition)
    for pod in current:
        at_ms = milliseconds(pod.metadata.annotation(EVICTED_AT))
        if at_ms and pod.metadata.name not in known:
            yield LifecycleEvent(POD_EVICTED, at_ms, pod.task, pod.metadata.name, pod.partition)


def _current(pods: Sequence[Pod], version: int) -> list[Pod]:
    """The pods that raise events."""
    return [
        pod
        for pod in pods
        if not pod.metadata.is_terminating and not pod.is_marked and pod.version >= version
    ]


def failing_pods(spec: JobSpec, version: int, pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """The live pods of each task whose containers have restarted too often."""
    by_task = _by_task(_current(pods, version))
    found = {task.name: _restarting(task, by_task.get(task.name, ())) for task in spec.tasks or ()}
    return {name: held for name, held in found.items() if held}


def _by_task(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.task, []).append(pod)
    return found


def _restarting(task: Task, pods: Iterable[Pod]) -> list[Pod]:
    """The live pods of a task, if their containers have restarted too often; else none."""
    alive = [pod for pod in pods if pod.status.phase in ("Running", "Pending")]
    return alive if sum(pod.restarts for pod in alive) >= task.max_retry else []


def failing_since_ms(pods: Sequence[Pod], now_ms: int) -> int:
    """Since when a task restarts too often: as a pod's annotation says, else since the last restart.

    Kubernetes stores only the last restart of a container, so the first one too many is annotated.
    """
    stored = [milliseconds(pod.metadata.annotation(FAILING_SINCE)) for pod in pods]
    if found := [time_ms for time_ms in stored if time_ms]:
        return min(found)
    return max((milliseconds(pod.restarted_at) for pod in pods), default=0) or now_ms


def _pod_event(event: str, pod: Pod) -> LifecycleEvent:
    return LifecycleEvent(
        event,
        milliseconds(pod.changed_at),
        pod.task,
        pod.metadata.name,
        pod.partition,
        pod.exit_codes if event == POD_FAILED else (),
    )


def _events_of_tasks(
    spec: JobSpec, pods: Sequence[Pod], current: Sequence[Pod], now_ms: int
) -> Iterator[LifecycleEvent]:
    all_pods, current_pods = _by_task(pods), _by_task(current)
    for task in spec.tasks or ():
        mine = current_pods.get(task.name, [])
        yield from _task_events(task, all_pods.get(task.name, []), mine, now_ms)


def _task_events(
    task: Task, pods: Sequence[Pod], current: Sequence[Pod], now_ms: int
) -> Iterator[LifecycleEvent]:
    succeeded = [pod for pod in pods if pod.status.phase == "Succeeded"]
    # A pod that was kept over a resume completes nothing again.
    fresh = [pod for pod in current if pod.status.phase == "Succeeded"]
    if fresh and len(succeeded) >= task.replicas > 0:
        last = max(fresh, key=lambda pod: (milliseconds(pod.changed_at), pod.metadata.name))
        yield _pod_event(TASK_COMPLETED, last)
    if restarting := _restarting(task, current):
        worst = max(restarting, key=lambda pod: (pod.restarts, pod.metadata.name))
        event = _pod_event(TASK_FAILED, worst)
        yield replace(event, since_ms=failing_since_ms(restarting, now_ms))


def _answer(policies: Iterable[Policy], event: LifecycleEvent) -> Answer | None:
    """The answer of the first policy that matches."""
    matching = (policy for policy in policies if _matches(policy, event))
    return next((_answer_of(policy, event) for policy in matching), None)


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
