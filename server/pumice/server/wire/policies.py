"""Converts priority classes, quotas, namespaces, disruption budgets and workloads."""

from __future__ import annotations

from pumice.core.model.group import (
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
    Workload,
)
from pumice.server.wire.fields import amounts, at_least, check_named, check_namespaced, plain_dict
from pumice.server.wire.selectors import read_selector, write_selector
from pumice.server.wire.times import read_time, write_time
from pumice.v1 import group_pb2


def read_priority_class(message: group_pb2.PriorityClass) -> PriorityClass:
    check_named(message.uid, message.name)
    return PriorityClass(message.uid, message.name, message.value, message.global_default)


def write_priority_class(priority: PriorityClass) -> group_pb2.PriorityClass:
    return group_pb2.PriorityClass(
        uid=priority.uid,
        name=priority.name,
        value=priority.value,
        global_default=priority.global_default,
    )


def read_resource_quota(message: group_pb2.ResourceQuota) -> ResourceQuota:
    check_namespaced(message.uid, message.namespace, message.name)
    return ResourceQuota(
        message.uid,
        message.namespace,
        message.name,
        amounts("hard_milli", message.hard_milli),
        amounts("used_milli", message.used_milli),
    )


def write_resource_quota(quota: ResourceQuota) -> group_pb2.ResourceQuota:
    return group_pb2.ResourceQuota(
        uid=quota.uid,
        namespace=quota.namespace,
        name=quota.name,
        hard_milli=dict(quota.hard_milli),
        used_milli=dict(quota.used_milli),
    )


def read_namespace(message: group_pb2.Namespace) -> Namespace:
    check_named(message.uid, message.name)
    return Namespace(message.uid, message.name, plain_dict(message.labels))


def write_namespace(namespace: Namespace) -> group_pb2.Namespace:
    return group_pb2.Namespace(uid=namespace.uid, name=namespace.name, labels=namespace.labels)


def read_budget(message: group_pb2.PodDisruptionBudget) -> PodDisruptionBudget:
    check_namespaced(message.uid, message.namespace, message.name)
    return PodDisruptionBudget(
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        selector=read_selector("selector", message.selector)
        if message.HasField("selector")
        else None,
        disruptions_allowed=message.disruptions_allowed,
        disrupted_pods=tuple(message.disrupted_pods),
        min_available=at_least("min_available", message.min_available, 0),
        creation_time_ns=read_time("creation_time", message.creation_time),
        controller_uid=message.controller_uid,
    )


def write_budget(budget: PodDisruptionBudget) -> group_pb2.PodDisruptionBudget:
    return group_pb2.PodDisruptionBudget(
        uid=budget.uid,
        namespace=budget.namespace,
        name=budget.name,
        selector=write_selector(budget.selector),
        disruptions_allowed=budget.disruptions_allowed,
        disrupted_pods=budget.disrupted_pods,
        min_available=budget.min_available,
        creation_time=write_time(budget.creation_time_ns),
        controller_uid=budget.controller_uid,
    )


def read_workload(kind: str, message: group_pb2.Workload) -> Workload:
    check_namespaced(message.uid, message.namespace, message.name)
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
