"""The demo's picture on a terminal, and as plain lines where there is none."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pumice.cli.demo.feed import Picture
from pumice.v1.inspection_service_pb2 import NodeInfo, QueueInfo

_PROGRESS_WIDTH = 24
_FULL = 100
_BORDERS = 2
_HEADER = 2
# Nodes above queues take at most this share of the screen; what is below is more interesting.
_MOST_NODES = 0.5


def render(
    picture: Picture, elapsed: float, total: float, screen: ConsoleDimensions
) -> RenderableType:
    """Queues and nodes above, decisions and what waits below; every line has its place."""
    most = int(screen.height * _MOST_NODES) - _BORDERS
    upper = min(max(len(picture.nodes), len(picture.queues), 3), most) + _BORDERS
    rows = screen.height - _HEADER - upper - _BORDERS
    layout = Layout()
    layout.split_column(
        Layout(_header(picture, elapsed, total), size=_HEADER),
        Layout(name="upper", size=upper),
        Layout(name="lower"),
    )
    layout["upper"].split_row(_queues(picture), _nodes(picture, upper - _BORDERS))
    layout["lower"].split_row(_decisions(picture, rows), _waiting(picture, rows))
    return layout


def _header(picture: Picture, elapsed: float, total: float) -> RenderableType:
    state = "the core is away" if picture.core_is_away else f"session {picture.session}"
    counts = f"{picture.bound} bound  {picture.evicted} evicted"
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True)
    line.add_column(justify="right", width=_PROGRESS_WIDTH)
    line.add_row(
        Text(f" pumice demo  {elapsed:4.1f} s  {state}  {counts}", style="bold"),
        ProgressBar(total=total, completed=min(elapsed, total), width=_PROGRESS_WIDTH),
    )
    return Group(line, _line([(f" {note}", "yellow") for note in picture.notes[-1:]]))


def _queues(picture: Picture) -> Layout:
    table = _bars()
    offered = picture.cluster_cpu()
    for queue in sorted(picture.queues, key=lambda info: info.share.name):
        held, deserved = _held_and_deserved(queue, offered)
        waiting = queue.pending_job_count + queue.inqueue_job_count
        jobs = f"{queue.running_job_count:>2} run {waiting:>2} wait"
        name = f"{queue.share.name} x{queue.weight}"
        table.add_row(name, _bar(held), f"{held:.0f}% of {deserved:.0f}%", jobs)
    return Layout(Panel(table, title="queues x weight: cpu held of deserved", title_align="left"))


def _nodes(picture: Picture, rows: int) -> Layout:
    table = _bars()
    hidden = len(picture.nodes) - rows
    shown = picture.nodes if hidden <= 0 else picture.nodes[: rows - 1]
    for node in shown:
        used = _fill(node)
        table.add_row(node.name, _bar(used), f"{used:.0f}%", f"{node.pod_count:>3} pods")
    if hidden > 0:
        table.add_row(f"{hidden + 1} more", "", "", "")
    return Layout(Panel(table, title="nodes: cpu in use", title_align="left"))


def _decisions(picture: Picture, rows: int) -> Layout:
    shown = list(picture.decisions)[-rows:]
    lines = [(f"{d.session:>4} {d}", "red" if d.is_eviction else "green") for d in shown]
    return Layout(
        Panel(_line(lines or [("none yet", "dim")]), title="last decisions", title_align="left")
    )


def _waiting(picture: Picture, rows: int) -> Layout:
    waiting = picture.waiting()
    lines = [
        (f"{job.name} {job.queue}, {_pods(job.pending_count)}: {why}", "")
        for job, why in waiting[:rows]
    ]
    if len(waiting) > rows:
        lines[-1] = (f"and {len(waiting) - rows + 1} more", "dim")
    return Layout(
        Panel(_line(lines or [("nobody", "dim")]), title="waiting, and why", title_align="left")
    )


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _line(lines: Iterable[tuple[str, str]]) -> Text:
    """Lines that are cut rather than wrapped, so that nothing jumps."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for number, (words, style) in enumerate(lines):
        text.append("\n" if number else "")
        text.append(words, style)
    return text


def _bars() -> Table:
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    return table


def _bar(percent: float) -> ProgressBar:
    return ProgressBar(
        total=_FULL,
        completed=min(percent, _FULL),
        complete_style="cyan",
        finished_style="cyan",
    )


def _fill(node: NodeInfo) -> float:
    offered = node.allocatable.get("cpu", 0)
    return _FULL * node.used.get("cpu", 0) / offered if offered else 0.0


def _held_and_deserved(queue: QueueInfo, offered: int) -> tuple[float, float]:
    if not offered:
        return 0.0, 0.0
    share = queue.share
    held, deserved = share.allocated.get("cpu", 0), share.deserved.get("cpu", 0)
    return _FULL * held / offered, _FULL * deserved / offered


def plain_line(picture: Picture, elapsed: float) -> str:
    """The same in one line, for logs."""
    if picture.core_is_away:
        return f"{elapsed:5.1f} s  the core is away"
    offered = picture.cluster_cpu()
    queues = ", ".join(
        f"{queue.share.name} {_held_and_deserved(queue, offered)[0]:.0f}%"
        for queue in picture.queues
    )
    used = sum(node.used.get("cpu", 0) for node in picture.nodes)
    fill = _FULL * used / offered if offered else 0.0
    return (
        f"{elapsed:5.1f} s  session {picture.session:<4} {picture.bound} bound, "
        f"{picture.evicted} evicted, {len(picture.waiting())} waiting; "
        f"cpu {fill:.0f}% in use: {queues}"
    )
