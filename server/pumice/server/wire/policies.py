"""Converts priority classes, quotas, namespaces, disruption budgets and workloads."""

from __future__ import annotations

from pumice.core.model.group import (
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
    Workload,
)
from pumice.server.wire.conversion import (
    AMOUNTS,
    TEXT_MAP,
    TEXTS,
    TIME,
    Conversion,
    bounded,
    named,
    optional,
)
from pumice.server.wire.selectors import SELECTOR, read_selector, write_selector
from pumice.v1 import group_pb2

PRIORITY_CLASS = Conversion(PriorityClass, group_pb2.PriorityClass)
RESOURCE_QUOTA = Conversion(
    ResourceQuota, group_pb2.ResourceQuota, hard_milli=AMOUNTS, used_milli=AMOUNTS
)
NAMESPACE = Conversion(Namespace, group_pb2.Namespace, labels=TEXT_MAP)
DISRUPTION_BUDGET = Conversion(
    PodDisruptionBudget,
    group_pb2.PodDisruptionBudget,
    selector=optional(SELECTOR),
    disrupted_pods=TEXTS,
    min_available=bounded(0),
    creation_time_ns=named("creation_time", TIME),
)


def read_workload(kind: str, message: group_pb2.Workload) -> Workload:
    """Reads a workload. Its kind is that of the field which holds the message."""
    has_selector = message.HasField("selector")
    selector = read_selector("selector", message.selector) if has_selector else None
    return Workload(message.uid, kind, message.namespace, message.name, selector)


def write_workload(workload: Workload) -> group_pb2.Workload:
    return group_pb2.Workload(
        uid=workload.uid,
        namespace=workload.namespace,
        name=workload.name,
        selector=write_selector(workload.selector),
    )
