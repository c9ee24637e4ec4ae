"""``pumice show``: the queues, jobs, nodes, sessions and configuration of a core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, TypeVar

import click
from rich.markup import escape

from pumice.cli.groups import SuggestingGroup
from pumice.cli.queries.options import core, core_options, output_options, print_value
from pumice.cli.queries.pauses import pause_markup, warn_if_paused
from pumice.cli.queries.suggestions import namespaces, queue_names, suggest
from pumice.cli.queries.tables import Column, FittedTable, number, print_table, resources_of
from pumice.cli.queries.timings import time_table, times_of
from pumice.cli.queries.top import by_parent
from pumice.cli.queries.watch import session_lines
from pumice.cli.terminal import console, print_warning
from pumice.client import (
    ActiveConfig,
    Client,
    Cluster,
    Job,
    Node,
    PodGroupPhase,
    Queue,
    SessionSummary,
)
from pumice.client.amounts import amount
from pumice.client.enums import phase_named
from pumice.client.values import Value

V = TypeVar("V", bound=Value)

_NEAR = 3
_PHASES = [phase.lower() for phase in PodGroupPhase if phase]


@click.group("show", cls=SuggestingGroup)
def show_group() -> None:
    """Shows the clusters, queues, jobs, nodes, sessions or the configuration of a core."""


def _print(
    client: Client,
    items: Sequence[V],
    output: str,
    table: Callable[[Sequence[V]], FittedTable],
) -> int:
    _print_items(items, output, table)
    warn_if_paused(client)
    return 0


def _print_items(
    items: Sequence[V], output: str, table: Callable[[Sequence[V]], FittedTable]
) -> None:
    if output == "table" and not items:
        click.echo("None found.", err=True)
    elif output == "table":
        print_table(table(items))
    else:
        print_value([item.to_dict() for item in items], output)


@show_group.command("clusters")
@core_options
@output_options
def clusters_command(output: str, **connection: Any) -> int:
    """Clusters with their adapters, and the reasons of pauses."""
    with core(**connection) as client:
        _print_items(client.list_clusters(), output, _cluster_table)
    return 0


def _cluster_table(clusters: Sequence[Cluster]) -> FittedTable:
    made = FittedTable(
        Column("cluster", shortens=True),
        Column("adapter", shortens=True, rank=3),
        number("nodes", rank=2),
        number("pods", rank=1),
        number("rejected", rank=4),
        number("epoch", rank=5),
        number("session"),
        number("age"),
        Column("state", wraps=True),
    )
    now = datetime.now(UTC)
    for each in clusters:
        counts = each.object_counts
        state = "[green]scheduled[/]"
        if each.pause is not None:
            state = f"[red]paused: {escape(each.pause.message)}[/]"
        made.add_row(
            escape(each.name),
            escape(each.adapter_id) or "-",
            str(counts.get("node", 0)),
            str(counts.get("pod", 0)),
            str(each.rejected_object_count),
            str(each.epoch),
            str(each.last_session),
            _age(now, each.last_session_time),
            state,
        )
    return made


@show_group.command("queues")
@core_options
@output_options
def queues_command(output: str, **connection: Any) -> int:
    """Queues as a tree, with deserved, allocated and requested resources."""
    with core(**connection) as client:
        return _print(client, client.list_queues(), output, _queue_table)


def _queue_table(queues: Sequence[Queue]) -> FittedTable:
    made = FittedTable(
        Column("queue", shortens=True),
        Column("state", rank=2),
        number("weight", rank=3),
        number("share"),
        Column("resource", shortens=True),
        number("deserved"),
        number("allocated"),
        number("requested", rank=1),
        number("jobs", rank=4),
    )
    for queue, depth in by_parent(list(queues)):
        share = queue.share
        held = (share.deserved, share.allocated, share.requested)
        head = [
            "  " * depth + escape(queue.name),
            queue.state.lower() or "-",
            str(queue.weight),
            f"{share.share:.0%}" + (" over" if share.overused else ""),
        ]
        jobs = str(queue.job_count)
        for name in resources_of(*held) or ["-"]:
            values = [amount(name, each[name]) if name in each else "-" for each in held]
            made.add_row(*head, escape(name), *values, jobs)
            head, jobs = [""] * len(head), ""
    return made


@show_group.command("jobs")
@click.option(
    "--namespace",
    "-n",
    default="",
    help="Namespace of the jobs.",
    shell_complete=suggest(namespaces),
)
@click.option("--queue", default="", help="Queue of the jobs.", shell_complete=suggest(queue_names))
@click.option(
    "--phase", type=click.Choice(_PHASES, case_sensitive=False), help="Phase of the jobs."
)
@core_options
@output_options
def jobs_command(
    namespace: str, queue: str, phase: str | None, output: str, **connection: Any
) -> int:
    """Jobs with their phase, the counts of their pods, and the reasons why they wait."""
    with core(**connection) as client:
        phases = [phase_named(phase)] if phase else []
        jobs = client.list_jobs(namespace=namespace, queue=queue, phases=phases)
        if not jobs:
            _warn_of_misspelling(client, namespace, queue)
        return _print(client, jobs, output, _job_table)


def _warn_of_misspelling(client: Client, namespace: str, queue: str) -> None:
    """Warns if the queue or namespace is unknown, which may explain an empty list."""
    if queue:
        _warn_unless_known("queue", queue, [each.name for each in client.list_queues()])
    if namespace:
        known = sorted({job.namespace for job in client.list_jobs()})
        _warn_unless_known("namespace with jobs", namespace, known)


def _warn_unless_known(what: str, name: str, names: list[str]) -> None:
    if name not in names:
        near = get_close_matches(name, names, n=_NEAR) or names[:_NEAR]
        print_warning(
            f"no {what} {name!r}" + (f"; similar names: {', '.join(near)}" if near else "")
        )


def _job_table(jobs: Sequence[Job]) -> FittedTable:
    made = FittedTable(
        Column("job", shortens=True),
        Column("queue", shortens=True),
        Column("phase"),
        number("min", rank=5),
        number("pending", rank=1),
        number("bound", rank=4),
        number("running", rank=2),
        number("finished", rank=6),
        number("age", rank=3),
        Column("why", wraps=True),
    )
    now = datetime.now(UTC)
    for job in jobs:
        counts = (
            job.min_member,
            job.pending_count,
            job.bound_count,
            job.running_count,
            job.succeeded_count + job.failed_count,
        )
        made.add_row(
            escape(job.full_name),
            escape(job.queue),
            job.phase or "-",
            *map(str, counts),
            _age(now, job.creation_time),
            escape(job.why),
        )
    return made


def _age(now: datetime, creation_time: datetime | None) -> str:
    if creation_time is None:
        return "-"
    seconds = (now - creation_time).total_seconds()
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


@show_group.command("nodes")
@core_options
@output_options
def nodes_command(output: str, **connection: Any) -> int:
    """Nodes with allocatable, used, idle, releasing and pipelined resources."""
    with core(**connection) as client:
        return _print(client, client.list_nodes(), output, _node_table)


def _node_table(nodes: Sequence[Node]) -> FittedTable:
    made = FittedTable(
        Column("node", shortens=True),
        number("pods", rank=3),
        Column("resource", shortens=True),
        number("allocatable"),
        number("used"),
        number("idle", rank=2),
        number("releasing", rank=4),
        number("pipelined", rank=5),
    )
    for node in nodes:
        mark = " (missing)" if node.missing else " (cordoned)" if node.unschedulable else ""
        idle = {**dict.fromkeys(node.allocatable, 0), **node.idle}
        held = (node.allocatable, node.used, idle, node.releasing, node.pipelined)
        head = [escape(node.name) + mark, str(node.pod_count)]
        for name in resources_of(*held) or ["-"]:
            values = [amount(name, each[name]) if name in each else "-" for each in held]
            made.add_row(*head, escape(name), *values)
            head = ["", ""]
    return made


@show_group.command("sessions")
@click.option("--decided", is_flag=True, help="Sessions with decisions only.")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Number of sessions.",
)
@core_options
@output_options
def sessions_command(decided: bool, count: int, output: str, **connection: Any) -> int:
    """Summaries of the last sessions, newest first."""
    with core(**connection) as client:
        sessions = client.list_sessions(decided_only=decided)[:count]
        return _print(client, sessions, output, _session_table)


def _session_table(sessions: Sequence[SessionSummary]) -> FittedTable:
    made = FittedTable(
        number("session"),
        Column("start"),
        number("ms", rank=1),
        number("binds"),
        number("evictions", rank=2),
        number("waiting", rank=3),
        number("faults", rank=4),
        number("seq", rank=5),
    )
    for each in sessions:
        counts = (each.bind_count, each.evict_count, each.wait_count, each.fault_count)
        made.add_row(
            str(each.number),
            f"{each.start_time:%Y-%m-%d %H:%M:%S}" if each.start_time else "-",
            f"{each.duration_seconds * 1000:.1f}",
            *map(str, counts),
            str(each.based_on_seq),
        )
    return made


@show_group.command("session")
@click.argument("session_number", type=click.IntRange(0), default=0, metavar="[NUMBER]")
@core_options
@output_options
def session_command(session_number: int, output: str, **connection: Any) -> int:
    """One session with its decisions; without a number, the last one."""
    with core(**connection) as client:
        session = client.get_session(session_number)
    if output != "table":
        print_value(session.to_dict(), output)
        return 0
    for line in session_lines(session):
        console().print(line, soft_wrap=True)
    times = times_of([session.summary])
    if times:
        print_table(time_table(times, 1, len(times)))
    return 0


@show_group.command("config")
@core_options
@output_options
def config_command(output: str, **connection: Any) -> int:
    """The scheduler configuration in use, and the last one that was rejected."""
    with core(**connection) as client:
        active = client.get_config()
    if output != "table":
        print_value(active.to_dict(), output)
        return 0
    _print_config(active)
    return 0


def _print_config(active: ActiveConfig) -> None:
    config, out = active.config, console()
    if active.pause is not None:
        out.print(f"# {pause_markup(active.pause)}", soft_wrap=True)
    if active.accepted_time is None:
        out.print("[red]# no configuration is in use[/]")
    else:
        source = f" from {escape(config.source)}" if config.source else ""
        since = f"{active.accepted_time:%Y-%m-%d %H:%M:%S}"
        out.print(f"[dim]# in use since {since}{source}[/]", soft_wrap=True)
        eager = ", eager" if config.eager else ""
        period = f"a session every {config.schedule_period_seconds:g} s{eager}"
        out.print(f"[dim]# {active.hash}, {period}[/]", soft_wrap=True)
        kernel = "in use" if active.core.compiled_kernel else "not available"
        out.print(f"[dim]# pumice {active.core.version}, compiled kernel {kernel}[/]")
        click.echo(config.scheduler_conf.rstrip("\n"))
    if active.rejected is not None:
        out.print("[red]# another configuration was rejected:[/]")
        for problem in active.problems:
            out.print(escape(f"#   {problem}"), soft_wrap=True)
