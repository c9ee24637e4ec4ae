"""Flags of `pumice controllers`: those of Volcano's controller manager."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from pumice.adapters.kubernetes.flags import (
    LOG_FLAGS,
    access_flags,
    duration,
    go_flag,
    lease_flags,
    process_flags,
)
from pumice.controllers.options import ShardingOptions
from pumice.controllers.registry import DEFAULT_SELECTION

F = TypeVar("F", bound=Callable[..., Any])

LEASE_NAME: Final = "vc-controller-manager"
DEFAULT_WORKERS: Final = 64
# The flag with the number of keys that a controller reconciles concurrently.
WORKER_FLAGS: Final[dict[str, str]] = {
    "job-controller": "--worker-threads",
    "gc-controller": "--worker-threads-for-gc",
    "pg-controller": "--worker-threads-for-podgroup",
    "queue-controller": "--worker-threads-for-queue",
    "cronjob-controller": "--worker-threads-for-cronjob",
}
# Flags of Volcano that have no effect, and the reason.
WITHOUT_EFFECT: Final[dict[str, str]] = {
    "--max-requeue-num": "failures are retried with backoff, and end no job",
    "--leader-elect-resource-lock": "the lock is always a Lease",
    "--feature-gates": "--controllers selects the controllers",
    "--ca-cert-file": "health is served without TLS",
    "--tls-cert-file": "health is served without TLS",
    "--tls-private-key-file": "health is served without TLS",
    "--log-flush-frequency": "the log goes to standard error at once",
    **LOG_FLAGS,
}


def _controller_flags() -> list[Callable[[F], F]]:
    return [
        click.option(
            "--controllers",
            multiple=True,
            metavar="LIST",
            help=f"Controllers that run: *, name, -name.  [{DEFAULT_SELECTION}]",
        ),
        click.option(
            "--scheduler-name",
            multiple=True,
            help="Schedulers whose jobs and pods are managed.  [volcano]",
        ),
        click.option(
            "--inherit-owner-annotations",
            type=bool,
            default=True,
            show_default=True,
            help="Whether PodGroups inherit annotations of the pods' owners.",
        ),
        *(
            click.option(
                flag,
                type=click.IntRange(min=1),
                default=DEFAULT_WORKERS,
                show_default=True,
                help=f"Objects that the {name} reconciles concurrently.",
            )
            for name, flag in WORKER_FLAGS.items()
        ),
    ]


def _sharding_flags() -> list[Callable[[F], F]]:
    default = ShardingOptions()
    return [
        click.option(
            "--scheduler-configs",
            multiple=True,
            metavar="LIST",
            help="Schedulers that share the nodes while the ConfigMap does not exist:"
            " name:type:min_util:max_util:prefer_warmup:min_nodes:max_nodes.",
        ),
        duration(
            "--shard-sync-period",
            "60s",
            "Interval between divisions of the nodes among the schedulers.",
        ),
        go_flag(
            "--enable-node-event-trigger",
            True,
            "Division of the nodes also when nodes change.",
        ),
        click.option(
            "--sharding-configmap",
            default=default.name,
            show_default=True,
            help="ConfigMap with the schedulers that share the nodes.",
        ),
        click.option(
            "--sharding-configmap-namespace",
            default=default.namespace,
            show_default=True,
            help="Namespace of that ConfigMap.",
        ),
    ]


def controller_flags(function: F) -> F:
    """Adds all flags of the controllers."""
    flags: list[Callable[[F], F]] = [
        *access_flags(),
        *_controller_flags(),
        *_sharding_flags(),
        *lease_flags(LEASE_NAME),
        *process_flags(":8081", "Time to complete writes after SIGTERM.", WITHOUT_EFFECT),
    ]
    for flag in reversed(flags):
        function = flag(function)
    return function
