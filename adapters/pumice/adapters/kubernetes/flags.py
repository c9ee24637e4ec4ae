"""The adapter's flags: Volcano's scheduler's own, by the same names, and a few more."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pumice.adapters.shadow.options import EVERY_SECONDS, WAIT_SECONDS
from pumice.manifests.golang import parse_bool, parse_duration_ns

F = TypeVar("F", bound=Callable[..., Any])

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


class GoBool(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """`true`, `false`, `1`, `F` …: what Go takes for a boolean."""

    name = "bool"

    def convert(self, value: Any, param: Any, ctx: Any) -> bool:
        if isinstance(value, bool):
            return value
        parsed = parse_bool(str(value))
        if parsed is None:
            self.fail(f"{value!r} is neither true nor false", param, ctx)
        return parsed


class GoDuration(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """`1s`, `500ms`, `1m30s`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, int | float):
            return float(value)
        parsed = parse_duration_ns(str(value))
        if parsed is None or parsed < 0:
            self.fail(f"{value!r} is not a duration such as 1s, 500ms or 1m30s", param, ctx)
        return parsed / 1e9


def go_flag(name: str, default: bool, text: str) -> Callable[[F], F]:
    """A flag that may stand alone or be given a value, as in Go: `--x` or `--x=false`."""
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


# Volcano's flags that change nothing here, and why.
WITHOUT_EFFECT: Final[dict[str, str]] = {
    "--resync-period": "watches are exact, and drift is found by digests",
    "--resource-sync-timeout": "nothing is decided before everything was read",
    "--minimum-feasible-nodes": "all nodes are looked at",
    "--minimum-percentage-nodes-to-find": "all nodes are looked at",
    "--percentage-nodes-to-find": "all nodes are looked at",
    "--node-worker-threads": "there are no worker threads",
    "--gate-removal-worker-num": "there are no worker threads",
    "--disable-default-scheduler-config": "a configuration that is refused never replaces a good one",
    "--plugins-dir": "plugins are Python packages with an entry point pumice.plugins",
    "--enable-pprof": "there is no pprof in Python",
    "--cache-dumper": "ask the core: pumice top, pumice explain",
    "--cache-dump-dir": "ask the core: pumice top, pumice explain",
    "--leader-elect-resource-lock": "the lock is always a Lease",
    "--ca-cert-file": "health is served without TLS",
    "--tls-cert-file": "health is served without TLS",
    "--tls-private-key-file": "health is served without TLS",
    "--log-flush-frequency": "the log goes to standard error at once",
    **{
        f"--{name}": "the log goes to standard error at once"
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
    },
}


def _cluster_flags() -> list[Callable[[F], F]]:
    return [
        click.option("--kubeconfig", default="", help="Else in-cluster, else KUBECONFIG."),
        click.option("--context", default="", help="The kubeconfig's context."),
        click.option("--master", default="", help="The API server's address."),
        click.option("--kube-api-qps", default=2000.0, show_default=True, help="Calls a second."),
        click.option("--kube-api-burst", default=2000, show_default=True, help="Calls at once."),
        click.option("--cluster", default="kubernetes", show_default=True, help="Its name."),
        click.option("--adapter-id", default="", help="Stays the same over restarts."),
    ]


def _scheduling_flags() -> list[Callable[[F], F]]:
    return [
        click.option(
            "--scheduler-name", multiple=True, help="Pods of these names are ours.  [volcano]"
        ),
        click.option("--scheduler-conf", type=_FILE, help="Scheduler configuration; reloaded."),
        click.option(
            "--scheduler-configmap",
            default="",
            metavar="NAMESPACE/NAME[/KEY]",
            help="Scheduler configuration from a ConfigMap; reloaded.",
        ),
        duration("--schedule-period", "1s", "From one session to the next."),
        click.option("--default-queue", default="default", show_default=True),
        click.option("--node-selector", multiple=True, help="Nodes with key:value are ours."),
        click.option("--ignored-provisioners", multiple=True, help="Of volumes."),
        go_flag("--priority-class", True, "Watch PriorityClasses."),
        go_flag("--csi-storage", True, "Watch CSI drivers and capacities."),
        click.option(
            "--scheduler-sharding-mode",
            default="none",
            show_default=True,
            type=click.Choice(["none", "hard", "soft"]),
        ),
        click.option("--scheduler-sharding-name", default="volcano", show_default=True),
        click.option("--feature-gates", multiple=True, metavar="NAME=BOOL,…"),
        click.option("--compat", multiple=True, help="Switches of the compatibility page."),
        go_flag("--eager", True, "Begin a session early when changes have settled."),
        duration("--gang-bind-deadline", "0s", "Evict a gang that stays short; 0: never."),
        duration("--apply-timeout", "60s", "For one decision, with all its tries."),
        go_flag("--make-queues", True, "Make the default queue and the root when missing."),
    ]


def _leadership_flags() -> list[Callable[[F], F]]:
    return [
        go_flag("--leader-elect", True, "Hold a Lease while applying."),
        duration("--leader-elect-lease-duration", "15s", "Others may take it after this."),
        duration("--leader-elect-renew-deadline", "10s", "Stop applying after this."),
        duration("--leader-elect-retry-period", "2s", "Between renewals."),
        click.option("--leader-elect-resource-name", default="volcano", show_default=True),
        click.option(
            "--leader-elect-resource-namespace", default="volcano-system", show_default=True
        ),
        click.option("--lock-object-namespace", default="", help="Overrides the one above."),
    ]


def _process_flags() -> list[Callable[[F], F]]:
    return [
        go_flag("--enable-metrics", False, "Serve /metrics."),
        click.option("--listen-address", default=":8080", show_default=True, help="Of metrics."),
        go_flag("--enable-healthz", False, "Serve /healthz."),
        click.option("--healthz-address", default=":11251", show_default=True),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
        ),
        click.option("-v", "--v", "verbosity", default="", help="5 and more: debug."),
        *(
            click.option(name, hidden=True, default=None, is_flag=False, flag_value="true")
            for name in WITHOUT_EFFECT
        ),
    ]


def _shadow_flags() -> list[Callable[[F], F]]:
    return [
        go_flag("--shadow", False, "Write nothing; say where the cluster's scheduler differs."),
        duration("--shadow-wait", f"{WAIT_SECONDS:g}s", "For the other scheduler's decision."),
        click.option(
            "--shadow-report",
            type=click.Path(dir_okay=False, writable=True, path_type=Path),
            help="Differences and summaries, appended as JSON lines.",
        ),
        duration("--shadow-every", f"{EVERY_SECONDS:g}s", "From summary to summary there."),
    ]


def adapter_flags(function: F) -> F:
    """All flags that the adapter and the one-command form share."""
    flags: Sequence[Callable[[F], F]] = [
        *_cluster_flags(),
        *_scheduling_flags(),
        *_leadership_flags(),
        *_shadow_flags(),
        *_process_flags(),
    ]
    for flag in reversed(flags):
        function = flag(function)
    return function
