"""``pumice watch``: the decisions of sessions, live."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
import yaml
from rich.markup import escape

from pumice.cli.queries.options import core, core_options, output_options
from pumice.cli.queries.tables import counted
from pumice.cli.terminal import console
from pumice.client import Session

_MOST_NODES = 4


@click.command("watch")
@click.option("--all", "everything", is_flag=True, help="Sessions without decisions, too.")
@click.option(
    "--after",
    type=click.IntRange(0),
    default=0,
    metavar="SESSION",
    help="Session after which the output begins.",
)
@click.option("--count", type=click.IntRange(1), help="Number of sessions to show; default: all.")
@core_options
@output_options
def watch_command(
    everything: bool, after: int, count: int | None, output: str, **connection: Any
) -> int:
    """Shows the decisions of sessions, one line per gang, until Ctrl-C.

    -o json prints one document per line, -o yaml a stream of documents.
    """
    with (
        core(**connection) as client,
        client.watch(after=after, decided_only=not everything) as sessions,
    ):
        try:
            for number, session in enumerate(sessions, 1):
                _print(session, output)
                if number == count:
                    break
        except KeyboardInterrupt:
            pass
    return 0


def _print(session: Session, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(session.to_dict(), ensure_ascii=False))
    elif output == "yaml":
        click.echo("---\n" + yaml.safe_dump(session.to_dict(), sort_keys=False), nl=False)
    else:
        out = console()
        for line in session_lines(session):
            out.print(line, soft_wrap=True)


def session_lines(session: Session) -> Iterator[str]:
    """A session as lines in rich's markup."""
    summary = session.summary
    start = f"[dim]{summary.start_time:%H:%M:%S}[/] " if summary.start_time else ""
    yield (
        f"{start}session {summary.number}: {counted(summary.bind_count, 'bind')}, "
        f"{counted(summary.evict_count, 'eviction')}, "
        f"{counted(summary.wait_count, 'job waits', 'jobs wait')} "
        f"[dim]({summary.duration_seconds * 1000:.1f} ms)[/]"
    )
    for evict in session.evictions:
        job = f" for {escape(evict.for_job)}" if evict.for_job else ""
        where, reason = escape(evict.node), escape(evict.reason)
        yield f"  [red]evict[/] {escape(evict.pod)} from {where}{job} ({reason})"
    jobs: dict[str, Counter[str]] = {}
    for bind in session.binds:
        jobs.setdefault(bind.job or bind.pod, Counter())[bind.node] += 1
    for job, nodes in jobs.items():
        pods = counted(nodes.total(), "pod")
        yield f"  [green]bind[/]  {escape(job)}: {pods} to {places(nodes, _MOST_NODES)}"
    for fault in session.faults:
        yield f"  [bold red]fault[/] {escape(str(fault))}"


def places(nodes: Counter[str], most: int) -> str:
    """``n1 x2, n2 and 3 more nodes``."""
    shown = [f"{node} x{count}" if count > 1 else node for node, count in sorted(nodes.items())]
    rest = len(shown) - most
    more = f" and {counted(rest, 'more node', 'more nodes')}" if rest > 0 else ""
    return escape(", ".join(shown[:most]) + more)
