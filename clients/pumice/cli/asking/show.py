"""``pumice show``: what a core holds, one list at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

import click
from google.protobuf.message import Message
from rich.markup import escape

from pumice.cli.asking.options import core, core_options, output_options, say
from pumice.cli.asking.plain import plain
from pumice.cli.asking.suggestions import namespaces, queue_names, suggest
from pumice.cli.asking.tables import print_table, resources_of, table
from pumice.cli.asking.top import by_parent
from pumice.cli.asking.watch import session_lines, session_value
from pumice.cli.composed import WordGroup
from pumice.cli.terminal import console, warn
from pumice.client import Client
from pumice.client.amounts import amount
from pumice.client.models import phase_of, seconds_of, time_of
from pumice.client.reasons import summarized, told
from pumice.v1.group_pb2 import PodGroupPhase, QueueState
from pumice.v1.inspection_service_pb2 import GetConfigResponse, JobInfo, NodeInfo, QueueInfo
from pumice.v1.session_pb2 import SessionSummary

_NEAR = 3
_PHASES = [
    name.removeprefix("POD_GROUP_PHASE_").lower()
    for name in PodGroupPhase.keys()  # noqa: SIM118
    if not name.endswith("UNSPECIFIED")
]


@click.group("show", cls=WordGroup)
def show_group() -> None:
    """Shows what a core holds: queues, jobs, nodes, sessions, the configuration."""


def _say(items: Sequence[Message], output: str, show: Callable[[Any], None]) -> int:
    if output == "table" and not items:
        click.echo("There are none.", err=True)
    elif output == "table":
        show(items)
    else:
        say([plain(item) for item in items], output)
    return 0


@show_group.command("queues")
@core_options
@output_options
def queues_command(output: str, **reached: Any) -> int:
    """Queues below their parents: what they deserve, hold and want."""
    with core(**reached) as client:
        return _say(client.queues(), output, _queues)


def _queues(queues: list[QueueInfo]) -> None:
    numbers = ("weight", "share", "deserved", "allocated", "requested", "jobs")
    made = table(
        *("queue", "state", "weight", "share", "resource"),
        *("deserved", "allocated", "requested", "jobs"),
        right=numbers,
    )
    for queue, depth in by_parent(queues):
        share = queue.share
        held = (share.deserved, share.allocated, share.requested)
        jobs = (
            queue.pending_job_count,
            queue.inqueue_job_count,
            queue.running_job_count,
            queue.unknown_job_count,
        )
        head = [
            "  " * depth + escape(share.name),
            QueueState.Name(queue.state).removeprefix("QUEUE_STATE_").lower(),
            str(queue.weight),
            f"{share.share:.0%}" + (" over" if share.overused else ""),
        ]
        for number, name in enumerate(resources_of(*held) or ["-"]):
            values = [amount(name, each[name]) if name in each else "-" for each in held]
            first = number == 0
            made.add_row(*(head if first else [""] * 4), name, *values, str(sum(jobs)) * first)
    print_table(made)


@show_group.command("jobs")
@click.option(
    "--namespace",
    "-n",
    default="",
    help="Only of this namespace.",
    shell_complete=suggest(namespaces),
)
@click.option(
    "--queue", default="", help="Only of this queue.", shell_complete=suggest(queue_names)
)
@click.option("--phase", type=click.Choice(_PHASES, case_sensitive=False), help="Only in this.")
@core_options
@output_options
def jobs_command(namespace: str, queue: str, phase: str | None, output: str, **reached: Any) -> int:
    """Jobs, how far they are, and why they wait."""
    with core(**reached) as client:
        jobs = client.jobs(namespace, queue, [phase] if phase else [])
        if not jobs:
            _hint(client, namespace, queue)
    return _say(jobs, output, _jobs)


def _hint(client: Client, namespace: str, queue: str) -> None:
    """None of a queue that is there is an answer; of one that is not, perhaps a slip of the pen."""
    if queue:
        _hint_at("queue", queue, [each.share.name for each in client.queues()])
    if namespace:
        _hint_at("namespace with jobs", namespace, sorted({j.namespace for j in client.jobs()}))


def _hint_at(what: str, name: str, there: list[str]) -> None:
    if name not in there:
        near = get_close_matches(name, there, n=_NEAR) or there[:_NEAR]
        warn(f"no {what} {name!r}" + (f"; there is {', '.join(near)}" if near else ""))


def _jobs(jobs: list[JobInfo]) -> None:
    numbers = ("min", "waiting", "placed", "running", "done", "age")
    made = table("job", "queue", "phase", *numbers, "why", right=numbers, wide="why")
    now = datetime.now(UTC)
    for job in jobs:
        counts = (
            job.min_member,
            job.pending_count,
            job.bound_count,
            job.running_count,
            job.succeeded_count + job.failed_count,
        )
        why = "; ".join(told(reason) for reason in summarized(job.reasons))
        made.add_row(
            escape(f"{job.namespace}/{job.name}"),
            escape(job.queue),
            phase_of(job.phase) or "-",
            *map(str, counts),
            _age(now, job),
            escape(why),
        )
    print_table(made)


def _age(now: datetime, job: JobInfo) -> str:
    if not job.creation_time.seconds:
        return "-"
    seconds = (now - time_of(job.creation_time)).total_seconds()
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


@show_group.command("nodes")
@core_options
@output_options
def nodes_command(output: str, **reached: Any) -> int:
    """Nodes: what they have, what is used, on its way out, and promised."""
    with core(**reached) as client:
        return _say(client.nodes(), output, _nodes)


def _nodes(nodes: list[NodeInfo]) -> None:
    numbers = ("pods", "allocatable", "used", "idle", "releasing", "promised")
    made = table("node", "pods", "resource", *numbers[1:], right=numbers)
    for node in nodes:
        mark = " (missing)" if node.missing else " (cordoned)" if node.unschedulable else ""
        held = (node.allocatable, node.used, node.idle, node.releasing, node.pipelined)
        for number, name in enumerate(resources_of(*held) or ["-"]):
            values = [amount(name, each[name]) if name in each else "-" for each in held]
            first = number == 0
            head = [escape(node.name) + mark, str(node.pod_count)] if first else ["", ""]
            made.add_row(*head, name, *values)
    print_table(made)


@show_group.command("sessions")
@click.option("--decided", is_flag=True, help="Only those that decided something.")
@click.option("--count", type=click.IntRange(1), default=20, show_default=True)
@core_options
@output_options
def sessions_command(decided: bool, count: int, output: str, **reached: Any) -> int:
    """The last sessions in figures, newest first."""
    with core(**reached) as client:
        return _say(client.sessions(decided_only=decided)[:count], output, _sessions)


def _sessions(sessions: list[SessionSummary]) -> None:
    numbers = ("session", "ms", "binds", "evictions", "wait", "faults", "op")
    made = table("session", "start", *numbers[1:], right=numbers)
    for each in sessions:
        counts = (each.bind_count, each.evict_count, each.wait_count, each.fault_count)
        made.add_row(
            str(each.session),
            f"{time_of(each.start_time):%Y-%m-%d %H:%M:%S}",
            f"{seconds_of(each) * 1000:.1f}",
            *map(str, counts),
            str(each.based_on_seq),
        )
    print_table(made)


@show_group.command("session")
@click.argument("number", type=click.IntRange(0), default=0, metavar="N")
@core_options
@output_options
def session_command(number: int, output: str, **reached: Any) -> int:
    """One session with all it decided; without a number, the last one."""
    with core(**reached) as client:
        session = client.session(number)
    if output != "table":
        say(session_value(session), output)
        return 0
    for line in session_lines(session):
        console().print(line, soft_wrap=True)
    return 0


@show_group.command("config")
@core_options
@output_options
def config_command(output: str, **reached: Any) -> int:
    """The configuration in use, and the last one that was refused."""
    with core(**reached) as client:
        held = client.config()
    if output != "table":
        say(plain(held), output)
        return 0
    _config(held)
    return 0


def _config(held: GetConfigResponse) -> None:
    used, out = held.configuration, console()
    out.print(f"[dim]# in use since {time_of(held.accepted_time):%Y-%m-%d %H:%M:%S}[/]")
    period = used.schedule_period.ToMilliseconds() / 1000
    eager = ", eager" if used.eager else ""
    out.print(f"[dim]# {held.effective_config_hash}, a session every {period:g} s{eager}[/]")
    click.echo(used.scheduler_conf.rstrip("\n"))
    if held.HasField("rejected"):
        out.print("[red]# another one was refused:[/]")
        for problem in held.problems:
            where = f"line {problem.line}: " if problem.line else ""
            out.print(escape(f"#   {where}{problem.path}: {problem.problem}"), soft_wrap=True)
