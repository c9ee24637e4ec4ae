"""The result of ``pumice schedule`` as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

from rich.markup import escape

from pumice.cli.queries.manifest import Manifest, Pending
from pumice.cli.queries.tables import (
    Column,
    FittedTable,
    counted,
    number,
    print_table,
    resources_of,
)
from pumice.cli.queries.watch import places
from pumice.cli.terminal import console
from pumice.client import Bind, Evict, ReasonCode, ScheduleResult
from pumice.client.amounts import amount

_MOST_ROWS = 40
_MOST_NODES = 5


def print_result(result: ScheduleResult, manifest: Manifest, pending: Sequence[Pending]) -> None:
    _print_evictions(result.evictions)
    _print_binds(result.binds, manifest)
    # A manifest without jobs, such as one more node, is about the jobs of the cluster.
    if not pending and not manifest.groups:
        pending = [Pending(wait.job, wait.why) for wait in result.waits]
    _print_pending(result, pending)
    _print_shares(result)
    if not result.binds and not result.evictions and not pending:
        console().print("Nothing would be decided.")
    milliseconds = sum(session.duration_seconds for session in result.sessions) * 1000
    figures = f"{counted(len(result.sessions), 'session')}, {milliseconds:.1f} ms"
    if result.based_on_seq:
        figures += f", as of seq {result.based_on_seq} of the live cluster"
    console().print(f"[dim]{figures}[/]")


def _print_evictions(evictions: Sequence[Evict]) -> None:
    if not evictions:
        return
    evicted = FittedTable(
        Column("evict", shortens=True),
        Column("from", shortens=True),
        Column("for", shortens=True),
        Column("why", wraps=True),
    )
    for evict in evictions[:_MOST_ROWS]:
        evicted.add_row(*map(escape, (evict.pod, evict.node, evict.for_job, evict.reason)))
    print_table(evicted)
    _print_rest(len(evictions), "eviction")


def _print_binds(binds: Sequence[Bind], manifest: Manifest) -> None:
    if not binds:
        return
    nodes: dict[str, Counter[str]] = {}
    for bind in binds:
        nodes.setdefault(bind.job or bind.pod, Counter())[bind.node] += 1
    bound = FittedTable(Column("bind", shortens=True), number("pods"), Column("to", wraps=True))
    # Jobs of the manifest come first; the same session places jobs of the cluster, too.
    for job in sorted(nodes, key=lambda each: each not in manifest.groups)[:_MOST_ROWS]:
        name = f"[green]{escape(job)}[/]"
        if manifest.groups and job not in manifest.groups:
            name = f"{escape(job)} [dim](in the cluster)[/]"
        bound.add_row(name, str(nodes[job].total()), places(nodes[job], _MOST_NODES))
    print_table(bound)
    _print_rest(len(nodes), "job")


def _print_pending(result: ScheduleResult, pending: Sequence[Pending]) -> None:
    if not pending:
        return
    shown = FittedTable(Column("would wait", shortens=True), Column("why", wraps=True))
    for each in pending[:_MOST_ROWS]:
        why = "; ".join((each.why, *_similar_queues(result, each.job)))
        shown.add_row(f"[yellow]{escape(each.job)}[/]", escape(why))
    print_table(shown)
    _print_rest(len(pending), "job")


def _print_rest(count: int, noun: str) -> None:
    if count > _MOST_ROWS:
        rest = counted(count - _MOST_ROWS, f"more {noun}")
        console().print(f"[dim]and {rest}; --json shows all[/]")


def _similar_queues(result: ScheduleResult, job: str) -> list[str]:
    """Suggestions for the missing queues of a job."""
    existing = [share.name for share in result.queues_after]
    missing = [
        name
        for wait in result.waits
        if wait.job == job
        for reason in wait.reasons
        if reason.code is ReasonCode.QUEUE_MISSING
        for name in reason.subjects
    ]
    similar = [name for each in missing for name in get_close_matches(each, existing, n=1)]
    return [f"did you mean {name}?" for name in similar]


def _print_shares(result: ScheduleResult) -> None:
    before = {share.name: share for share in result.queues_before}
    changed = [
        (before[share.name], share)
        for share in result.queues_after
        if share.name in before and before[share.name].allocated != share.allocated
    ]
    if not changed:
        return
    shares = FittedTable(
        Column("queue", shortens=True),
        Column("resource", shortens=True),
        *map(number, ("before", "after", "deserved")),
    )
    for old, new in changed:
        for name in resources_of(old.allocated, new.allocated):
            values = (old.allocated, new.allocated, new.deserved)
            amounts = (amount(name, held.get(name, 0)) for held in values)
            shares.add_row(escape(new.name), escape(name), *amounts)
    print_table(shares)
