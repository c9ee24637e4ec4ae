"""Lifecycle events of a Job, and the policies that match them.

Events follow from the observed state: a failed pod is an event as long as the pod exists, so that a
restarted controller finds the event again. Only evictions leave nothing to observe. The controller
remembers an eviction until an annotation of the replacing pod has it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.controllers.job.deleting import is_stale_group
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.types import (
    EVICTED_AT,
    FAILING_SINCE,
    Action,
    JobSpec,
    Pod,
    Policy,
    Task,
)
from pumice.controllers.resources import PODS
from pumice.controllers.runtime.acts import Patch
from pumice.controllers.runtime.times import milliseconds, shown_exactly
from pumice.patterns.golang import parse_duration_ns

ANY: Final = "*"
POD_PENDING: Final = "PodPending"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """An event that a policy may match."""

    name: str
    since_ms: int
    task: str = ""
    pod: str = ""
    partition: str = ""
    exit_codes: tuple[int, ...] = ()

    def __str__(self) -> str:
        about = f"pod {self.pod}" if self.pod else f"task {self.task}" if self.task else "PodGroup"
        return f"{self.name} of {about}"


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """The action of the policy that matches an event, and when it is due."""

    event: LifecycleEvent
    action: Action
    due_ms: int
    is_delayed: bool


def policy_actions(observed: Observed) -> list[PolicyAction]:
    """The actions for all events that a policy matches, in the order in which they are due."""
    spec = observed.spec
    if not spec.policies and not any(task.policies for task in spec.tasks or ()):
        return []
    found = []
    by_name = {pod.metadata.name: pod for pod in observed.pods}
    by_task = {task.name: task.policies or [] for task in spec.tasks or ()}
    for event in _events(observed):
        # Policies of the task come before those of the job.
        matched = _first_match([*by_task.get(event.task, ()), *(spec.policies or ())], event)
        if matched is None or matched.action is Action.SYNC:
            continue
        if event.name == POD_EVICTED and not _is_unhandled(by_name.get(event.pod), matched):
            continue
        found.append(matched)
    return sorted(found, key=lambda matched: matched.due_ms)


def has_timeouts(spec: JobSpec) -> bool:
    """Whether a policy has a timeout."""
    policies = [*(spec.policies or ()), *(p for t in spec.tasks or () for p in t.policies or ())]
    return any(policy.timeout for policy in policies)


def _is_unhandled(replacement: Pod | None, matched: PolicyAction) -> bool:
    """A replacing pod ends an eviction; for a delayed action, not before the pod has left Pending."""
    if replacement is None:
        return True
    return matched.is_delayed and replacement.status.phase == "Pending"


def _events(observed: Observed) -> Iterator[LifecycleEvent]:
    current = _current_pods(observed)
    yield from _evictions(observed, current)
    for pod in current:
        if pod.status.phase == "Failed":
            yield _pod_event(POD_FAILED, pod, milliseconds(pod.changed_at))
    yield from _task_events(observed, current)
    group = observed.group
    if (
        group is not None
        and group.status.phase == "Unknown"
        and not group.metadata.is_terminating
        and not is_stale_group(observed.job, group)
    ):
        times = [one.last_transition_time or "" for one in group.status.conditions or ()]
        since = max(times, default="") or group.metadata.creation_timestamp
        yield LifecycleEvent(UNKNOWN, milliseconds(since))
    for pod in current:
        if pod.status.phase == "Pending":
            created_ms = milliseconds(pod.metadata.creation_timestamp)
            yield _pod_event(POD_PENDING, pod, created_ms)


def _evictions(observed: Observed, current: Sequence[Pod]) -> Iterator[LifecycleEvent]:
    """Evictions that the controller remembers, and others that replacing pods have as annotations."""
    known = set()
    for one in observed.evictions:
        known.add(one.pod)
        if one.version >= observed.job.status.version:
            yield LifecycleEvent(POD_EVICTED, one.at_ms, one.task, one.pod, one.partition)
    for pod in current:
        evicted_ms = milliseconds(pod.metadata.annotation(EVICTED_AT))
        if evicted_ms and pod.metadata.name not in known:
            yield _pod_event(POD_EVICTED, pod, evicted_ms)


def _current_pods(observed: Observed) -> list[Pod]:
    """The pods of the current version, without those that are being deleted."""
    version = observed.job.status.version
    return [
        pod
        for pod in observed.pods
        if not pod.metadata.is_terminating and not pod.is_marked and pod.version >= version
    ]


def failing_pods(observed: Observed) -> dict[str, list[Pod]]:
    """The running and pending pods of each task whose containers have restarted too often."""
    pods = _by_task(_current_pods(observed))
    tasks = observed.spec.tasks or ()
    found = {task.name: _restarting(task, pods.get(task.name, ())) for task in tasks}
    return {name: failing for name, failing in found.items() if failing}


def _by_task(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.task, []).append(pod)
    return found


def _restarting(task: Task, pods: Iterable[Pod]) -> list[Pod]:
    """The running and pending pods of a task, if their containers have restarted too often; else none."""
    alive = [pod for pod in pods if pod.status.phase in ("Running", "Pending")]
    return alive if sum(pod.restarts for pod in alive) >= task.max_retry else []


def _failing_since_ms(pods: Sequence[Pod], now_ms: int) -> int:
    """Since when a task has restarted too often: the time in an annotation, else the last restart.

    Kubernetes stores only the last restart of a container, so the controller writes the annotation.
    """
    stored = [milliseconds(pod.metadata.annotation(FAILING_SINCE)) for pod in pods]
    if found := [time_ms for time_ms in stored if time_ms]:
        return min(found)
    return max((milliseconds(pod.restarted_at) for pod in pods), default=0) or now_ms


def _pod_event(name: str, pod: Pod, since_ms: int) -> LifecycleEvent:
    exit_codes = pod.exit_codes if name == POD_FAILED else ()
    return LifecycleEvent(name, since_ms, pod.task, pod.metadata.name, pod.partition, exit_codes)


def _task_events(observed: Observed, current: Sequence[Pod]) -> Iterator[LifecycleEvent]:
    all_pods, current_pods = _by_task(observed.pods), _by_task(current)
    for task in observed.spec.tasks or ():
        pods, mine = all_pods.get(task.name, []), current_pods.get(task.name, [])
        succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
        # A pod that a resume kept does not complete the task again.
        new = [pod for pod in mine if pod.status.phase == "Succeeded"]
        if new and succeeded >= task.replicas > 0:
            last = max(new, key=lambda pod: (milliseconds(pod.changed_at), pod.metadata.name))
            yield _pod_event(TASK_COMPLETED, last, milliseconds(last.changed_at))
        if restarting := _restarting(task, mine):
            worst = max(restarting, key=lambda pod: (pod.restarts, pod.metadata.name))
            yield _pod_event(TASK_FAILED, worst, _failing_since_ms(restarting, observed.now_ms))


def _first_match(policies: Iterable[Policy], event: LifecycleEvent) -> PolicyAction | None:
    policy = next((policy for policy in policies if _matches(policy, event)), None)
    if policy is None:
        return None
    delay = delay_ms(policy) or 0
    due_ms = event.since_ms + delay if delay else 0
    return PolicyAction(event, Action.read(policy.action), due_ms, delay > 0)


def _matches(policy: Policy, event: LifecycleEvent) -> bool:
    if delay_ms(policy) is None:
        return False
    events = [*(policy.events or ()), policy.event]
    # A policy for any event does not match a success.
    is_named = event.name in events or (ANY in events and event.name != TASK_COMPLETED)
    if is_named and (event.name != POD_PENDING or policy.timeout is not None):
        return True
    return policy.exit_code is not None and policy.exit_code in event.exit_codes


def delay_ms(policy: Policy) -> int | None:
    """The timeout of a policy; 0: it has none; None: it is invalid."""
    if not policy.timeout:
        return 0
    nanoseconds = parse_duration_ns(policy.timeout)
    return None if nanoseconds is None else max(0, nanoseconds // 1_000_000)


# The annotation with the time since when a task restarts too often, for policies with a timeout.


def failing_since_patches(observed: Observed, matches: Iterable[PolicyAction]) -> tuple[Patch, ...]:
    """Writes the annotation when a timeout begins, and removes it when the task has recovered."""
    if not has_timeouts(observed.spec):
        return ()
    delayed = {
        one.event.task: one.event.pod
        for one in matches
        if one.event.name == TASK_FAILED and one.is_delayed
    }
    annotated = [pod for pod in observed.pods if pod.metadata.annotation(FAILING_SINCE)]
    if not delayed and not annotated:
        return ()
    failing = failing_pods(observed)
    patches = [
        _failing_since_patch(pod, None)
        for pod in annotated
        if pod.task not in failing and not pod.metadata.is_terminating
    ]
    for task, name in delayed.items():
        # Users can change the annotation to a text that is not a time.
        if not any(milliseconds(pod.metadata.annotation(FAILING_SINCE)) for pod in failing[task]):
            since = shown_exactly(_failing_since_ms(failing[task], observed.now_ms))
            patches += [
                _failing_since_patch(pod, since)
                for pod in failing[task]
                if pod.metadata.name == name
            ]
    return tuple(patches)


def _failing_since_patch(pod: Pod, since: str | None) -> Patch:
    return Patch.of(PODS, pod.metadata, {"metadata": {"annotations": {FAILING_SINCE: since}}})
