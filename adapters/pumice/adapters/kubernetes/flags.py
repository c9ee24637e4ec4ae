"""Flags of the adapter: those of Volcano's scheduler, and additional ones."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pumice.adapters.shadow.options import EVERY_SECONDS, WAIT_SECONDS
from pumice.patterns.golang import parse_bool, parse_duration_ns

F = TypeVar("F", bound=Callable[..., Any])

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


class GoBool(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A boolean as in Go, such as `true`, `1` or `F`."""

    name = "bool"

    def convert(self, value: Any, param: Any, ctx: Any) -> bool:
        if isinstance(value, bool):
            return value
        parsed = parse_bool(str(value))
        if parsed is None:
            self.fail(f"{value!r} is neither true nor false", param, ctx)
        return parsed


class GoDuration(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A duration as in Go, such as `1m30s`, converted to seconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, int | float):
            return float(value)
        parsed = parse_duration_ns(str(value))
        if parsed is None or parsed < 0:
            self.fail(f"{value!r} is not a duration such as 1s, 500ms or 1m30s", param, ctx)
        return parsed / 1e9


def go_flag(name: str, default: bool, text: str) -> Callable[[F], F]:
    """A boolean flag as in Go: `--x` or `--x=false`."""
    return click.option(
        name,
        default=default,
        show_default=True,
        is_flag=False,
        flag_value="true",
        type=GoBool(),
        help=text,
    )


def duration(name: str, default: str, text: str) -> Callable[[F], F]:
    return click.option(name, default=default, show_default=True, type=GoDuration(), help=text)


# klog's flags.
LOG_FLAGS: Final[dict[str, str]] = {
    f"--{name}": "the log is written to standard error at once"
    for name in (
        "logtostderr",
        "alsologtostderr",
        "stderrthreshold",
        "log_dir",
        "log_file",
        "log_file_max_size",
        "log_backtrace_at",
        "vmodule",
        "one_output",
        "skip_headers",
        "skip_log_headers",
        "add_dir_header",
    )
}

# Flags of Volcano that are accepted without effect, with the reason.
WITHOUT_EFFECT: Final[dict[str, str]] = {
    "--resync-period": "watches are complete, and digests detect drift",
    "--resource-sync-timeout": "no session runs before all objects were read",
    "--minimum-feasible-nodes": "all nodes are considered",
    "--minimum-percentage-nodes-to-find": "all nodes are considered",
    "--percentage-nodes-to-find": "all nodes are considered",
    "--node-worker-threads": "there are no worker threads",
    "--gate-removal-worker-num": "there are no worker threads",
    "--plugins-dir": "plugins are Python packages with an entry point pumice.plugins",
    "--enable-pprof": "Python has no pprof",
    "--cache-dumper": "use pumice top and pumice explain",
    "--cache-dump-dir": "use pumice top and pumice explain",
    "--leader-elect-resource-lock": "the lock is always a Lease",
    "--ca-cert-file": "health is served without TLS",
    "--tls-cert-file": "health is served without TLS",
    "--tls-private-key-file": "health is served without TLS",
    "--log-flush-frequency": "the log is written to standard error at once",
    **LOG_FLAGS,
}

# The default NodeShard.
DEFAULT_SHARD: Final = "volcano"

# Feature gates of Volcano that take effect here.
GATES: Final = (
    "PriorityClass",
    "WorkLoadSupport",
    "PodDisruptionBudgetsSupport",
    "ResourceTopology",
    "SchedulingGatesQueueAdmission",
)
# Feature gates that change decisions of the core.
CORE_GATES: Final = ("SchedulingGatesQueueAdmission",)
# Sets all other gates, because all gates of Volcano are alpha.
ALL_ALPHA: Final = "AllAlpha"
# Environment variables of Volcano without effect.
UNUSED_VARIABLES: Final = ("BATCH_BIND_NUM", "PANIC_ON_ERROR", "DEBUG_SOCKET_DIR")


def access_flags() -> list[Callable[[F], F]]:
    """Flags for the API server and the rate of calls."""
    return [
        click.option(
            "--kubeconfig",
            default="",
            help="Kubeconfig file.  [the pod's account, or KUBECONFIG, or ~/.kube/config]",
        ),
        click.option("--context", default="", help="Context of the kubeconfig."),
        click.option("--master", default="", help="Address of the API server."),
        click.option(
            "--kube-api-qps", default=2000.0, show_default=True, help="API calls per second."
        ),
        click.option(
            "--kube-api-burst", default=2000, show_default=True, help="API calls in a burst."
        ),
    ]


def _cluster_flags() -> list[Callable[[F], F]]:
    return [
        *access_flags(),
        click.option(
            "--cluster", default="kubernetes", show_default=True, help="Name of the cluster."
        ),
        click.option(
            "--adapter-id",
            default="",
            help="Name of this adapter, the same after a restart.  [the host name]",
        ),
    ]


def _scheduling_flags() -> list[Callable[[F], F]]:
    return [
        click.option(
            "--scheduler-name",
            multiple=True,
            help="Scheduler names whose pods are scheduled.  [volcano]",
        ),
        click.option(
            "--scheduler-conf", type=_FILE, help="Scheduler configuration file, reloaded on change."
        ),
        click.option(
            "--scheduler-configmap",
            default="",
            metavar="NAMESPACE/NAME[/KEY]",
            help="ConfigMap with the scheduler configuration, reloaded on change.",
        ),
        go_flag(
            "--disable-default-scheduler-config",
            False,
            "No fallback to the built-in configuration if no valid one was ever read.",
        ),
        duration("--schedule-period", "1s", "Interval between scheduling sessions."),
        click.option(
            "--default-queue",
            default="default",
            show_default=True,
            help="Queue of jobs without a queue.",
        ),
        click.option(
            "--node-selector", multiple=True, help="Labels key:value of the nodes in use.  [all]"
        ),
        click.option(
            "--ignored-provisioners",
            multiple=True,
            help="Provisioners exempt from CSI volume limits.",
        ),
        go_flag("--priority-class", True, "Use of PriorityClasses."),
        go_flag("--csi-storage", True, "Use of CSI drivers and storage capacities."),
        click.option(
            "--scheduler-sharding-mode",
            default="none",
            show_default=True,
            type=click.Choice(["none", "hard", "soft"]),
            help="Use of nodes outside the NodeShard: always (none), never (hard), or last (soft).",
        ),
        click.option(
            "--scheduler-sharding-name",
            default=DEFAULT_SHARD,
            show_default=True,
            help="Name of this scheduler's NodeShard.",
        ),
        click.option(
            "--feature-gates", multiple=True, metavar="NAME=BOOL,…", help="Volcano's feature gates."
        ),
        click.option(
            "--compat", multiple=True, help="Compatibility switches, such as kube-batch's."
        ),
        go_flag("--eager", True, "Sessions soon after changes, before the end of the period."),
        duration(
            "--gang-bind-deadline",
            "0s",
            "Time after which an incomplete gang is evicted; 0: never.",
        ),
        duration("--apply-timeout", "60s", "Time for one decision, including all retries."),
        go_flag("--make-queues", True, "Creation of missing default and root queues."),
        duration(
            "--other-scheduler-check",
            "0s",
            "Time to watch for binds by another scheduler before leading; exits if there are any.",
        ),
    ]


def lease_flags(name: str) -> list[Callable[[F], F]]:
    """Flags for leader election by a Lease with this name."""
    return [
        go_flag("--leader-elect", True, "Leader election by a Lease."),
        duration(
            "--leader-elect-lease-duration", "15s", "Time after which another process may lead."
        ),
        duration(
            "--leader-elect-renew-deadline", "10s", "Time without renewal until the leader stops."
        ),
        duration("--leader-elect-retry-period", "2s", "Interval between renewals."),
        click.option(
            "--leader-elect-resource-name",
            default=name,
            show_default=True,
            help="Name of the Lease.",
        ),
        click.option(
            "--leader-elect-resource-namespace",
            default="volcano-system",
            show_default=True,
            help="Namespace of the Lease.",
        ),
        click.option(
            "--lock-object-namespace",
            default="",
            help="Namespace of the Lease; overrides the flag above.",
        ),
    ]


def _leadership_flags() -> list[Callable[[F], F]]:
    return [
        *lease_flags("volcano"),
        duration(
            "--core-timeout",
            "10s",
            "Time without a response of the core until the lease is released.",
        ),
    ]


def process_flags(
    metrics_address: str, drain_text: str, without_effect: Iterable[str]
) -> list[Callable[[F], F]]:
    """Flags for HTTP pages, log and shutdown, and flags that are accepted without effect."""
    return [
        duration("--drain-timeout", "15s", drain_text),
        go_flag("--enable-metrics", False, "A /metrics page."),
        click.option(
            "--listen-address",
            default=metrics_address,
            show_default=True,
            help="Address of /metrics.",
        ),
        go_flag("--enable-healthz", False, "A /healthz page."),
        click.option(
            "--healthz-address", default=":11251", show_default=True, help="Address of /healthz."
        ),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="Least severe level that is logged.",
        ),
        click.option("-v", "--v", "verbosity", default="", help="klog verbosity; debug from 5 on."),
        *(
            click.option(name, hidden=True, default=None, is_flag=False, flag_value="true")
            for name in without_effect
        ),
    ]


def _shadow_flags() -> list[Callable[[F], F]]:
    return [
        go_flag("--shadow", False, "Comparison with the cluster's own scheduler, without writes."),
        duration("--shadow-wait", f"{WAIT_SECONDS:g}s", "Time for the other scheduler's decision."),
        click.option(
            "--shadow-report",
            type=click.Path(dir_okay=False, writable=True, path_type=Path),
            help="File for differences and summaries, as JSON lines.",
        ),
        duration(
            "--shadow-every", f"{EVERY_SECONDS:g}s", "Interval between summaries in the report."
        ),
    ]


def adapter_flags(function: F) -> F:
    """Adds all flags of the adapter, which `pumice run` also accepts."""
    flags: Sequence[Callable[[F], F]] = [
        *_cluster_flags(),
        *_scheduling_flags(),
        *_leadership_flags(),
        *_shadow_flags(),
        *process_flags(
            ":8080", "Time to complete decisions in flight after SIGTERM.", WITHOUT_EFFECT
        ),
    ]
    for flag in reversed(flags):
        function = flag(function)
    return function
