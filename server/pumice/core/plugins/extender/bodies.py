"""Bodies of requests to an extender: objects with the field names of Volcano's JSON.

Of pods, PodGroups and queues they contain the fields that scheduling reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.tasks import Task
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources

Body = Mapping[str, Any]


def resource_body(resources: Resources) -> Body:
    return {
        "MilliCPU": float(resources.milli_cpu),
        "Memory": float(resources.memory),
        "ScalarResources": resources.volcano_scalars(),
        "MaxTaskNum": 0,
    }


def task_body(task: Task) -> Body:
    pod, request = task.pod, resource_body(task.request)
    spec = task.class_.spec
    return {
        "UID": task.uid,
        "Job": task.job_id,
        "Name": task.name,
        "Namespace": pod.namespace,
        "TaskRole": task.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": task.node_name,
        "Status": int(task.status),
        "Priority": task.priority,
        "Preemptable": pod.preemptable,
        "BestEffort": task.best_effort,
        "RevocableZone": pod.revocable_zone,
        "PodAnnotations": dict(sorted(task.annotations.items())),
        "Pod": {
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "labels": dict(sorted(pod.labels.items())),
                "annotations": dict(sorted(pod.annotations.items())),
            },
            "spec": {
                "nodeName": task.node_name,
                "schedulerName": spec.scheduler_name,
                "priority": pod.priority,
                "priorityClassName": spec.priority_class_name,
                "nodeSelector": dict(spec.node_selector),
            },
        },
    }


def node_body(table: NodeTable, row: int) -> Body:
    entry = table.rows[row]
    node = entry.known_node
    labels, annotations = (dict(sorted(d.items())) for d in (node.labels, node.annotations))
    pipelined = table.idle[:, row] + table.releasing[:, row] - table.future[:, row]
    return {
        "Name": entry.name,
        "Node": {
            "metadata": {"name": entry.name, "labels": labels, "annotations": annotations},
            "spec": {"unschedulable": node.unschedulable},
        },
        "Releasing": resource_body(_amounts(table, table.releasing[:, row])),
        "Pipelined": resource_body(_amounts(table, pipelined)),
        "Idle": resource_body(_amounts(table, table.idle[:, row])),
        "Used": resource_body(_amounts(table, table.used[:, row])),
        "Allocatable": resource_body(_amounts(table, table.allocatable[:, row])),
        "Capacity": resource_body(Resources.of(node.capacity)),
    }


def _amounts(table: NodeTable, values: Any) -> Resources:
    amounts = zip(table.columns, values.tolist(), strict=True)
    return Resources.of((name, value) for name, value in amounts if value)


def job_body(job: Job, *, with_tasks: bool = True) -> Body:
    group, tasks = job.group, dict[str, Body]()
    by_status: dict[str, dict[str, Body]] = {}
    for task in sorted(job.index, key=lambda t: t.order_key) if with_tasks else ():
        tasks[task.uid] = task_body(task)
        by_status.setdefault(str(int(task.status)), {})[task.uid] = tasks[task.uid]
    body = {
        "UID": job.id,
        "Name": job.name,
        "Namespace": job.namespace,
        "Queue": job.queue,
        "Priority": job.priority,
        "MinAvailable": job.min_available,
        "Allocated": resource_body(job.index.allocated),
        "PodGroup": {
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "annotations": {} if group is None else dict(sorted(group.annotations.items())),
            },
            "spec": {"minMember": job.min_available, "queue": job.queue},
            "status": {"phase": str(job.phase)},
        },
    }
    return {**body, "Tasks": tasks, "TaskStatusIndex": by_status} if with_tasks else body


def queue_body(queue: Queue) -> Body:
    return {
        "UID": queue.name,
        "Name": queue.name,
        "Weight": queue.weight,
        "Queue": {
            "metadata": {
                "name": queue.name,
                "annotations": dict(sorted(queue.annotations.items())),
            },
            "spec": {"weight": queue.weight, "parent": queue.parent, "priority": queue.priority},
        },
    }
