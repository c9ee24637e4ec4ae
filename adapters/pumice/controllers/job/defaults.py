"""Defaults of a Job's spec."""

from typing import Final

import msgspec

from pumice.controllers.job.types import JobSpec, Task

_DEFAULT_RETRIES: Final = 3


def with_defaults(spec: JobSpec, scheduler_name: str) -> JobSpec:
    """The spec with the defaults that Volcano's webhook sets."""
    tasks = [_task_with_defaults(task, number) for number, task in enumerate(spec.tasks or ())]
    plugins = dict(spec.plugins or {})
    if {"tensorflow", "mpi", "pytorch", "ray"} & plugins.keys():
        plugins.setdefault("svc", [])
    if "mpi" in plugins:
        plugins.setdefault("ssh", [])
    minimum = sum(task.min_available or 0 for task in tasks)
    return msgspec.structs.replace(
        spec,
        tasks=tasks,
        plugins=plugins,
        scheduler_name=spec.scheduler_name or scheduler_name,
        max_retry=spec.max_retry or _DEFAULT_RETRIES,
        min_available=spec.min_available or minimum,
        queue=spec.queue or "default",
    )


def _task_with_defaults(task: Task, number: int) -> Task:
    # Volcano's definition allows a negative number, and its webhook refuses it. With one, the conditions of
    # Pending and of Running could hold at once.
    replicas = max(0, task.replicas)
    minimum = task.min_available
    if minimum is None:
        minimum = replicas
        if task.partition_policy is not None and task.partition_policy.min_partitions > 0:
            policy = task.partition_policy
            minimum = policy.min_partitions * policy.partition_size
    return msgspec.structs.replace(
        task,
        name=task.name or f"default{number}",
        replicas=replicas,
        min_available=minimum,
        max_retry=task.max_retry or _DEFAULT_RETRIES,
    )
