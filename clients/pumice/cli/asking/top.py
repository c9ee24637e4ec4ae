"""``pumice top``: queues and nodes at a glance, live on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from pumice.cli.asking.options import core, core_options, output_options, say
from pumice.cli.asking.plain import plain
from pumice.cli.asking.tables import resources_of, table, used_of
from pumice.cli.terminal import console
from pumice.client import Client, CoreUnavailableError, NotFoundError, TimeOverError
from pumice.v1.group_pb2 import QueueState
from pumice.v1.inspection_service_pb2 import NodeInfo, QueueInfo

_WARM, _HOT = 0.7, 0.95


@click.command("top")
@click.option("--nodes", "node_count", type=click.IntRange(0), default=15, show_default=True)
@click.option(
    "--interval", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds."
)
@click.option("--once", is_flag=True, help="Looks once, as it does without a terminal.")
@core_options
@output_options
def top_command(node_count: int, interval: float, once: bool, output: str, **reached: Any) -> int:
    """Shows queues by what they have of what they deserve, and the fullest nodes.

    On a terminal it stays and looks again and again, until Ctrl-C.
    """
    with core(**reached) as client:
        if output != "table":
            say(_value(client), output)
        elif once or not sys.stdout.isatty():
            console().print(_picture(client, node_count))
        else:
            _stay(client, node_count, interval)
    return 0


def _stay(client: Client, node_count: int, interval: float) -> None:
    # The first look may fail like that of any other command; later ones wait for the core.
    picture = _picture(client, node_count)
    try:
        with Live(picture, console=console(), screen=True) as live:
            while True:
                time.sleep(interval)
                try:
                    picture, trouble = _picture(client, node_count), ""
                except (CoreUnavailableError, NotFoundError, TimeOverError) as error:
                    trouble = f"[yellow]{escape(str(error))}; trying again[/]"
                live.update(Group(trouble, picture) if trouble else picture)
    except KeyboardInterrupt:
        return


def _value(client: Client) -> dict[str, object]:
    return {
        "queues": [plain(queue) for queue in client.queues()],
        "nodes": [plain(node) for node in client.nodes()],
    }


def _picture(client: Client, node_count: int) -> RenderableType:
    nodes = client.nodes()
    return Group(_queues(client.queues()), "", _nodes(nodes, node_count))


def _queues(queues: list[QueueInfo]) -> Table:
    names = resources_of(*(queue.share.allocated for queue in queues))[:4] or ["cpu", "memory"]
    made = table(
        *("queue", "state", "share", *names, "pending", "inqueue", "running"),
        right=("share", "pending", "inqueue", "running", *names),
    )
    for queue, depth in by_parent(queues):
        share = queue.share
        made.add_row(
            "  " * depth + escape(share.name),
            QueueState.Name(queue.state).removeprefix("QUEUE_STATE_").lower(),
            f"[{_colour(share.share)}]{share.share:.0%}[/]",
            *(used_of(share.allocated, share.deserved, name) for name in names),
            *(
                str(count)
                for count in (
                    queue.pending_job_count,
                    queue.inqueue_job_count,
                    queue.running_job_count,
                )
            ),
        )
    return made


def by_parent(queues: list[QueueInfo]) -> list[tuple[QueueInfo, int]]:
    """Children below their parents, by name; one whose parent is not there stands at the top."""
    known = {queue.share.name for queue in queues}
    children: dict[str, list[QueueInfo]] = {}
    for queue in queues:
        parent = queue.parent if queue.parent in known else ""
        children.setdefault(parent, []).append(queue)
    found: list[tuple[QueueInfo, int]] = []
    waiting = [(queue, 0) for queue in reversed(children.get("", queues))]
    seen = set()
    while waiting:
        queue, depth = waiting.pop()
        if queue.share.name in seen:
            continue
        seen.add(queue.share.name)
        found.append((queue, depth))
        waiting += [(c, depth + 1) for c in reversed(children.get(queue.share.name, []))]
    return found


def _nodes(nodes: list[NodeInfo], count: int) -> Table:
    names = resources_of(*(node.allocatable for node in nodes))[:4] or ["cpu", "memory"]
    title = f"node ({len(nodes)})"
    made = table(title, "full", *names, "pods", right=("full", "pods", *names))
    for node in sorted(nodes, key=lambda each: (-_fullness(each), each.name))[:count]:
        marks = " [red]missing[/]" if node.missing else " [dim]cordoned[/]"
        full = _fullness(node)
        made.add_row(
            escape(node.name) + (marks if node.missing or node.unschedulable else ""),
            f"[{_colour(full)}]{full:.0%}[/]",
            *(used_of(node.used, node.allocatable, name) for name in names),
            str(node.pod_count),
        )
    return made


def _fullness(node: NodeInfo) -> float:
    parts = [
        node.used.get(name, 0) / whole for name, whole in node.allocatable.items() if whole > 0
    ]
    return max(parts, default=0.0)


def _colour(part: float) -> str:
    return "red" if part >= _HOT else "yellow" if part >= _WARM else "green"
