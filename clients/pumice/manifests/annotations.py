"""Selects the annotations for the core, and parses the annotations that Volcano reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pumice.patterns.golang import parse_bool, parse_duration_ns, parse_int

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
# Written by the scheduler.
ALLOCATED_HYPER_NODE: Final = "volcano.sh/job-allocated-hypernode"
OVERSUBSCRIPTION_CPU: Final = "volcano.sh/oversubscription-cpu"
OVERSUBSCRIPTION_MEMORY: Final = "volcano.sh/oversubscription-memory"

_SLA_WAITING_TIMES: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
# A copy of the whole object, which can contain secrets.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

# The domains of Volcano, of Kubernetes scheduling, and of devices that Volcano can share.
_DOMAINS: Final = ("volcano.sh", "scheduling.k8s.io", "hami.io", "huawei.com", "nvidia.com")
_WITHOUT_DOMAIN: Final = frozenset({"sla-waiting-time", "hami-vnpu-core"})


@lru_cache(maxsize=4096)
def is_for_scheduling(key: str) -> bool:
    """Whether an annotation of a pod or node is sent to the core."""
    domain, slash, _ = key.rpartition("/")
    if not slash:
        return key in _WITHOUT_DOMAIN
    return domain.endswith(_DOMAINS) or "pumice" in domain.split(".")


def for_scheduling(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if is_for_scheduling(key)}


def without_last_applied(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if key != _LAST_APPLIED}


def role(annotations: Mapping[str, str], labels: Mapping[str, str]) -> str:
    return annotations.get(TASK_SPEC) or labels.get(TASK_SPEC, "")


def preemptable(annotations: Mapping[str, str], labels: Mapping[str, str], default: bool) -> bool:
    """The value of the annotation or the label; text that Go cannot parse as a boolean is false."""
    text = annotations.get(PREEMPTABLE)
    if text is None:
        text = labels.get(PREEMPTABLE)
    return default if text is None else parse_bool(text) is True


def revocable_zone(annotations: Mapping[str, str]) -> str:
    """``*`` for all zones, or empty; Volcano accepts no other value."""
    zone = annotations.get(REVOCABLE_ZONE)
    if zone is not None:
        return "*" if zone == "*" else ""
    return "*" if parse_bool(annotations.get(PREEMPTABLE, "")) is True else ""


def task_priority(annotations: Mapping[str, str], priority: int | None) -> int:
    text = annotations.get(TASK_PRIORITY)
    read = None if text is None else parse_int(text, bits=32)
    if read is not None:
        return read
    return 1 if priority is None else priority


def sla_waiting_time_ns(annotations: Mapping[str, str]) -> int | None:
    """The first of the two annotations with a positive duration."""
    for key in _SLA_WAITING_TIMES:
        duration = parse_duration_ns(annotations.get(key, ""))
        if duration is not None and duration > 0:
            return duration
    return None
