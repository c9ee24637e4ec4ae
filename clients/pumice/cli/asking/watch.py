"""``pumice watch``: decisions as they are made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
import yaml
from rich.markup import escape

from pumice.cli.asking.options import core, core_options, output_options
from pumice.cli.terminal import console
from pumice.client.models import SessionView


@click.command("watch")
@click.option("--all", "everything", is_flag=True, help="Also sessions that decide nothing.")
@click.option("--after", type=click.IntRange(0), default=0, help="Begin after this session.")
@click.option("--count", type=click.IntRange(1), help="End after so many sessions.")
@core_options
@output_options
def watch_command(
    everything: bool, after: int, count: int | None, output: str, **reached: Any
) -> int:
    """Shows what sessions decide, one line a gang, until Ctrl-C.

    For programs: one JSON document a line, or YAML documents.
    """
    with core(**reached) as client:
        sessions = client.watch(after, decided_only=not everything)
        try:
            for number, session in enumerate(sessions, 1):
                _tell(session, output)
                if number == count:
                    break
        except KeyboardInterrupt:
            pass
        finally:
            sessions.close()  # type: ignore[attr-defined]
    return 0


def _tell(session: SessionView, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(session_value(session), ensure_ascii=False))
    elif output == "yaml":
        click.echo("---\n" + yaml.safe_dump(session_value(session), sort_keys=False), nl=False)
    else:
        out = console()
        for line in session_lines(session):
            out.print(line, soft_wrap=True)


def session_value(session: SessionView) -> dict[str, object]:
    return {
        "session": session.number,
        "start": session.start.isoformat(),
        "milliseconds": round(session.seconds * 1000, 3),
        "binds": [{"pod": b.pod, "node": b.node, "job": b.job} for b in session.binds],
        "evictions": [
            {"pod": e.pod, "node": e.node, "reason": e.reason, "forJob": e.for_job}
            for e in session.evictions
        ],
        "waiting": session.waiting_count,
        "skipped": session.skipped,
    }


def session_lines(session: SessionView) -> Iterator[str]:
    yield (
        f"[dim]{session.start:%H:%M:%S}[/] session {session.number}: {len(session.binds)} binds, "
        f"{len(session.evictions)} evictions, {session.waiting_count} jobs wait "
        f"[dim]({session.seconds * 1000:.1f} ms)[/]"
    )
    for order in session.evictions:
        whom = f" for {escape(order.for_job)}" if order.for_job else ""
        yield f"  [red]evict[/] {escape(order.pod)} from {order.node}{whom} ({order.reason})"
    jobs: dict[str, Counter[str]] = {}
    for bind in session.binds:
        jobs.setdefault(bind.job or bind.pod, Counter())[bind.node] += 1
    for job, nodes in jobs.items():
        places = [f"{node} x{n}" if n > 1 else node for node, n in sorted(nodes.items())]
        more = f" and {len(places) - 4} more" if len(places) > 4 else ""
        pods = sum(nodes.values())
        yield f"  [green]bind[/]  {escape(job)}: {pods} to {', '.join(places[:4])}{more}"
