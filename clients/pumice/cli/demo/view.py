"""The demo's view: a screen on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pumice.cli.demo.state import DemoState
from pumice.client import Node, Queue

_PROGRESS_WIDTH = 24
_FULL = 100
_BORDERS = 2
# Narrower screens have no bars for queues.
_WIDE = 100
_HEADER = 3
# Queues and nodes take at most this share of the screen.
_MOST_NODES = 0.5


def render(
    state: DemoState,
    elapsed: float,
    total: float | None,
    address: str,
    screen: ConsoleDimensions,
) -> RenderableType:
    """Queues and nodes above, decisions and waiting jobs below."""
    most = int(screen.height * _MOST_NODES) - _BORDERS
    upper = min(max(len(state.nodes), len(state.queues), 3), most) + _BORDERS
    rows = screen.height - _HEADER - upper - _BORDERS
    layout = Layout()
    layout.split_column(
        Layout(_header(state, elapsed, total, address), size=_HEADER),
        Layout(name="upper", size=upper),
        Layout(name="lower"),
    )
    layout["upper"].split_row(
        _queues(state, with_bars=screen.width >= _WIDE), _nodes(state, upper - _BORDERS)
    )
    layout["lower"].split_row(_decisions(state, rows), _waiting(state, rows))
    return layout


def _header(state: DemoState, elapsed: float, total: float | None, address: str) -> RenderableType:
    condition = "core unavailable" if state.core_is_unavailable else f"session {state.session}"
    counts = f"{state.bound} bound  {state.evicted} evicted"
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True)
    line.add_column(justify="right", width=_PROGRESS_WIDTH)
    progress: RenderableType = Text("Ctrl-C to end", style="dim")
    if total is not None:
        progress = ProgressBar(total=total, completed=min(elapsed, total), width=_PROGRESS_WIDTH)
    line.add_row(
        Text(f" pumice demo  {elapsed:4.1f} s  {condition}  {counts}", style="bold"), progress
    )
    query = f" pumice top --core {address}"
    return Group(
        line,
        _lines([(query, "dim")]),
        _lines([(f" {note}", "yellow") for note in state.notes[-1:]]),
    )


def _queues(state: DemoState, *, with_bars: bool) -> Layout:
    table = _bars()
    offered = state.cluster_cpu()
    for queue in sorted(state.queues, key=lambda queue: queue.name):
        held, deserved = _held_and_deserved(queue, offered)
        waiting = queue.pending_job_count + queue.inqueue_job_count
        jobs = f"{queue.running_job_count:>2} run {waiting:>2} wait"
        name = f"{queue.name} x{queue.weight}"
        bar = _bar(held) if with_bars else ""
        table.add_row(name, bar, f"{held:.0f}/{deserved:.0f}%", jobs)
    return Layout(Panel(table, title="queues: cpu allocated/deserved", title_align="left"))


def _nodes(state: DemoState, rows: int) -> Layout:
    table = _bars()
    hidden = len(state.nodes) - rows
    shown = state.nodes if hidden <= 0 else state.nodes[: rows - 1]
    for node in shown:
        used = _fill(node)
        table.add_row(node.name, _bar(used), f"{used:.0f}%", f"{node.pod_count:>3} pods")
    if hidden > 0:
        table.add_row(f"{hidden + 1} more", "", "", "")
    return Layout(Panel(table, title="nodes: cpu in use", title_align="left"))


def _decisions(state: DemoState, rows: int) -> Layout:
    shown = list(state.decisions)[-rows:]
    lines = [(f"{d.session:>4} {d}", "red" if d.is_eviction else "green") for d in shown]
    return Layout(
        Panel(_lines(lines or [("none yet", "dim")]), title="last decisions", title_align="left")
    )


def _waiting(state: DemoState, rows: int) -> Layout:
    waiting = state.waiting()
    lines = [
        (f"{job.name} {job.queue}, {_pods(job.pending_count)}: {why}", "")
        for job, why in waiting[:rows]
    ]
    if len(waiting) > rows:
        lines[-1] = (f"and {len(waiting) - rows + 1} more", "dim")
    return Layout(
        Panel(
            _lines(lines or [("no job", "dim")]), title="waiting jobs, and why", title_align="left"
        )
    )


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _lines(lines: Iterable[tuple[str, str]]) -> Text:
    """Lines that are truncated instead of wrapped, so that the height is constant."""
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


def _fill(node: Node) -> float:
    offered = node.allocatable.get("cpu", 0)
    return _FULL * node.used.get("cpu", 0) / offered if offered else 0.0


def _held_and_deserved(queue: Queue, offered: int) -> tuple[float, float]:
    if not offered:
        return 0.0, 0.0
    share = queue.share
    held, deserved = share.allocated.get("cpu", 0), share.deserved.get("cpu", 0)
    return _FULL * held / offered, _FULL * deserved / offered


def plain_line(state: DemoState, elapsed: float) -> str:
    """The state in one line."""
    if state.core_is_unavailable:
        return f"{elapsed:5.1f} s  core unavailable"
    offered = state.cluster_cpu()
    queues = ", ".join(
        f"{queue.name} {_held_and_deserved(queue, offered)[0]:.0f}%" for queue in state.queues
    )
    used = sum(node.used.get("cpu", 0) for node in state.nodes)
    fill = _FULL * used / offered if offered else 0.0
    return (
        f"{elapsed:5.1f} s  session {state.session:<4} {state.bound} bound, "
        f"{state.evicted} evicted, {len(state.waiting())} waiting; "
        f"cpu {fill:.0f}% in use: {queues}"
    )
