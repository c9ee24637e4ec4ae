"""Sub-jobs: gangs inside a job, by the policies of its PodGroup."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pumice.core.cache.task_index import TaskIndex
from pumice.core.model.group import NetworkTopology, SubGroupPolicy
from pumice.core.model.pod import Pod
from pumice.core.model.resources import Resources

_LONGEST_READABLE_ID = 128
# The characters that Kubernetes uses in generated names.
_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(slots=True, eq=False)
class SubJob:
    """A part of a job with a minimum and a topology of its own."""

    id: str
    group_id: str
    job_id: str
    min_available: int
    index: TaskIndex
    network_topology: NetworkTopology | None = None
    match_index: int = 0
    priority: int = 0

    @property
    def is_ready(self) -> bool:
        return self.index.is_ready(self.min_available)

    @property
    def short(self) -> int:
        """The number of further tasks that it needs to be ready; negative: it has more than it needs."""
        index = self.index
        return self.min_available - index.ready_count - index.pending_best_effort

    @property
    def is_pipelined(self) -> bool:
        return self.index.is_pipelined(self.min_available)

    def pending_request(self) -> Resources:
        total = Resources()
        for class_, count in Counter([task.class_ for task in self.index.pending.values()]).items():
            total.add_times(class_.request, count)
        return total


def match_values(policy: SubGroupPolicy, pod: Pod) -> tuple[str, ...]:
    """The label values that identify the pod's sub-group; empty: the policy does not apply."""
    if policy.selector is not None and not policy.selector.matches(pod.labels):
        return ()
    values = tuple(pod.labels.get(key, "") for key in policy.match_label_keys)
    return values if all(values) else ()


def sub_job_id(job_id: str, policy_name: str, values: tuple[str, ...]) -> str:
    name = "-".join(values)
    if len(name.encode()) > _LONGEST_READABLE_ID:
        digits = str(_fnv_32a(name.encode()))
        name = "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in digits)
    return f"{job_id}/{policy_name}-{name}"


def _fnv_32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
