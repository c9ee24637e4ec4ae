"""``pumice top``: queues, the fullest nodes and the slowest plugins, live on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from pumice.cli.queries.options import core, core_options, output_options, print_value
from pumice.cli.queries.pauses import pause_markup
from pumice.cli.queries.tables import (
    Column,
    FittedTable,
    number,
    print_table,
    resources_of,
    short_names,
    used_of,
)
from pumice.cli.queries.timings import SESSIONS, time_table, times_of
from pumice.cli.terminal import console
from pumice.client import Client, Node, Queue, QueueState
from pumice.client.errors import OUTAGES

_WARM, _HOT = 0.7, 0.95
_MOST_RESOURCES = 4
# Lines of the tables' heads, of the notes about hidden columns, and between the tables.
_OTHER_LINES = 8
# Lines of the head of the table of times, and above it.
_HEAD_LINES = 3


@click.command("top")
@click.option(
    "--nodes",
    "node_count",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="Maximum number of nodes to show.",
)
@click.option(
    "--times",
    "time_count",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    help="Maximum number of actions and plugins to show, by their time in the last sessions.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates.",
)
@click.option("--once", is_flag=True, help="Output of one update; the default without a terminal.")
@core_options
@output_options
def top_command(
    node_count: int, time_count: int, interval: float, once: bool, output: str, **connection: Any
) -> int:
    """Shows queues with their shares, the fullest nodes, and the time of actions and plugins.

    On a terminal the output is updated until Ctrl-C.
    """
    with core(**connection) as client:
        if output != "table":
            print_value(_View(client, node_count, time_count).to_dict(), output)
        elif once or not sys.stdout.isatty():
            _View(client, node_count, time_count).print()
        else:
            _update_until_interrupted(client, node_count, time_count, interval)
    return 0


class _View:
    """Queues, nodes and the last sessions at one moment."""

    def __init__(self, client: Client, node_count: int, time_count: int) -> None:
        self.pause = client.get_config().pause
        self.queues = client.list_queues()
        self.nodes = client.list_nodes()
        sessions = client.list_sessions(count=SESSIONS)
        self._session_count, self.times = len(sessions), times_of(sessions)
        self._node_count, self._time_count = node_count, time_count

    def to_dict(self) -> dict[str, Any]:
        return {
            "pause": self.pause and self.pause.to_dict(),
            "queues": [queue.to_dict() for queue in self.queues],
            "nodes": [node.to_dict() for node in self.nodes],
            "times": [times.to_dict() for times in self.times],
        }

    def print(self) -> None:
        if self.pause is not None:
            console().print(pause_markup(self.pause), soft_wrap=True)
        print_table(queue_table(self.queues))
        console().print()
        print_table(node_table(self.nodes, self._node_count))
        if self._shown_times:
            console().print()
            print_table(self._time_table())

    @property
    def _shown_times(self) -> int:
        return min(self._time_count, len(self.times))

    def _time_table(self) -> FittedTable:
        return time_table(self.times, self._session_count, self._time_count)

    def rendered(self, width: int, height: int) -> RenderableType:
        times = self._shown_times + _HEAD_LINES if self._shown_times else 0
        rows = min(self._node_count, max(height - len(self.queues) - _OTHER_LINES - times, 1))
        out = console()
        return Group(
            *([pause_markup(self.pause)] if self.pause is not None else []),
            queue_table(self.queues).fitted(out, width),
            "",
            node_table(self.nodes, rows).fitted(out, width),
            *(["", self._time_table().fitted(out, width)] if self._shown_times else []),
        )


def _update_until_interrupted(
    client: Client, node_count: int, time_count: int, interval: float
) -> None:
    screen = console()
    # The first error ends the command; later errors are shown until the core answers again.
    view = _View(client, node_count, time_count)
    try:
        with Live(view.rendered(*screen.size), console=screen, screen=True) as live:
            while True:
                time.sleep(interval)
                outage = ""
                try:
                    view = _View(client, node_count, time_count)
                except OUTAGES as error:
                    outage = f"{error}; retrying"
                shown = view.rendered(*screen.size)
                live.update(Group(Text(outage, style="yellow"), shown) if outage else shown)
    except KeyboardInterrupt:
        return


def queue_table(queues: list[Queue]) -> FittedTable:
    names = resources_of(*(queue.share.allocated for queue in queues))[:_MOST_RESOURCES]
    names = names or ["cpu", "memory"]
    made = FittedTable(
        Column("queue", shortens=True),
        number("share"),
        *_resource_columns(names),
        number("pending", rank=1),
        number("inqueue", rank=99),
        number("running", rank=2),
    )
    for queue, depth in by_parent(queues):
        share = queue.share
        state = queue.state
        mark = "" if state in {QueueState.OPEN, QueueState.UNSPECIFIED} else f" {state.lower()}"
        made.add_row(
            "  " * depth + escape(queue.name) + f"[yellow]{mark}[/]" * bool(mark),
            f"[{_colour(share.share)}]{share.share:.0%}[/]",
            *(used_of(share.allocated, share.deserved, name) for name in names),
            str(queue.pending_job_count),
            str(queue.inqueue_job_count),
            str(queue.running_job_count),
        )
    return made


def _resource_columns(names: list[str]) -> list[Column]:
    """CPU is always shown; the last resource is hidden first."""
    return [number(name, rank=10 * index) for index, name in enumerate(short_names(names))]


def by_parent(queues: list[Queue]) -> list[tuple[Queue, int]]:
    """Queues in tree order, with their depth. A queue with a missing parent counts as a root."""
    known = {queue.name for queue in queues}
    children: dict[str, list[Queue]] = {}
    for queue in queues:
        parent = queue.parent if queue.parent in known else ""
        children.setdefault(parent, []).append(queue)
    found: list[tuple[Queue, int]] = []
    pending = [(queue, 0) for queue in reversed(children.get("", queues))]
    seen = set()
    while pending:
        queue, depth = pending.pop()
        if queue.name in seen:
            continue
        seen.add(queue.name)
        found.append((queue, depth))
        pending += [(child, depth + 1) for child in reversed(children.get(queue.name, []))]
    return found


def node_table(nodes: list[Node], count: int) -> FittedTable:
    names = resources_of(*(node.allocatable for node in nodes))[:_MOST_RESOURCES]
    names = names or ["cpu", "memory"]
    made = FittedTable(
        Column(f"node ({len(nodes)})", shortens=True),
        number("used"),
        *_resource_columns(names),
        number("pods", rank=1),
    )
    for node in sorted(nodes, key=lambda each: (-each.used_ratio, each.name))[:count]:
        mark = " [red]missing[/]" if node.missing else " [dim]cordoned[/]"
        made.add_row(
            escape(node.name) + (mark if node.missing or node.unschedulable else ""),
            f"[{_colour(node.used_ratio)}]{node.used_ratio:.0%}[/]",
            *(used_of(node.used, node.allocatable, name) for name in names),
            str(node.pod_count),
        )
    return made


def _colour(part: float) -> str:
    return "red" if part >= _HOT else "yellow" if part >= _WARM else "green"
