"""The demo's picture on a terminal, and as plain lines where there is none."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pumice.cli.demo.feed import Picture
from pumice.v1.inspection_service_pb2 import NodeInfo

_BAR_WIDTH = 24
_SHOWN_WAITING = 6
_FULL = 100


def render(picture: Picture, elapsed: float, total: float) -> RenderableType:
    """Queues, nodes, decisions and what waits, one below the other."""
    columns = Table.grid(expand=True, padding=(0, 1))
    columns.add_column(ratio=1)
    columns.add_column(ratio=1)
    columns.add_row(_queues(picture), _nodes(picture))
    columns.add_row(_decisions(picture), _waiting(picture))
    return Group(_header(picture, elapsed, total), columns)


def _header(picture: Picture, elapsed: float, total: float) -> RenderableType:
    state = "core is away" if picture.core_is_away else f"session {picture.session}"
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    line.add_row(
        Text(f"pumice demo  {elapsed:4.1f} s  {state}  {picture.bound} bound", style="bold"),
        ProgressBar(total=total, completed=min(elapsed, total), width=_BAR_WIDTH),
    )
    notes = [Text(note, style="yellow") for note in picture.notes]
    return Group(line, *notes)


def _queues(picture: Picture) -> Panel:
    table = Table.grid(expand=True, padding=(0, 1))
    for queue in sorted(picture.queues, key=lambda info: info.share.name):
        share = queue.share.share
        jobs = f"{queue.running_job_count} run, {queue.inqueue_job_count} wait"
        table.add_row(queue.share.name, _bar(_FULL * share), f"{share:.0%}", jobs)
    return Panel(table, title="queues: held of deserved")


def _nodes(picture: Picture) -> Panel:
    table = Table.grid(expand=True, padding=(0, 1))
    for node in picture.nodes:
        used = _fill(node)
        table.add_row(node.name, _bar(used), f"{used:.0f}%", f"{node.pod_count} pods")
    return Panel(table, title="nodes: cpu in use")


def _fill(node: NodeInfo) -> float:
    offered = node.allocatable.get("cpu", 0)
    return _FULL * node.used.get("cpu", 0) / offered if offered else 0.0


def _bar(percent: float) -> ProgressBar:
    return ProgressBar(total=_FULL, completed=min(percent, _FULL), width=_BAR_WIDTH)


def _decisions(picture: Picture) -> Panel:
    return Panel("\n".join(picture.decisions) or "none yet", title="last decisions")


def _waiting(picture: Picture) -> Panel:
    waiting = picture.waiting()
    lines = [f"{job}: {why}" for job, why in waiting[:_SHOWN_WAITING]]
    if len(waiting) > _SHOWN_WAITING:
        lines.append(f"and {len(waiting) - _SHOWN_WAITING} more")
    return Panel("\n".join(lines) or "nobody", title="waiting, and why")


def plain_line(picture: Picture, elapsed: float) -> str:
    """The same in one line, for logs."""
    if picture.core_is_away:
        return f"{elapsed:5.1f} s  core is away"
    queues = ", ".join(f"{q.share.name} {q.share.share:.0%}" for q in picture.queues)
    nodes = [_fill(node) for node in picture.nodes]
    fill = sum(nodes) / len(nodes) if nodes else 0.0
    return (
        f"{elapsed:5.1f} s  session {picture.session}  {picture.bound} bound, "
        f"{picture.evicted} evicted, {len(picture.waiting())} jobs waiting  "
        f"nodes {fill:.0f}% full  queues {queues}"
    )
