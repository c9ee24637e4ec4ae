"""The result of ``pumice schedule`` as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from rich.markup import escape

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
from pumice.client import Bind, Evict, JobResult, JobVerdict, ScheduleResult
from pumice.client.amounts import amount

_MOST_ROWS = 40
_MOST_NODES = 5


def print_result(result: ScheduleResult) -> None:
    _print_evictions(result.evictions)
    _print_binds(result.binds, {each.job for each in result.jobs})
    waiting = [each for each in result.waiting if each.verdict is not JobVerdict.INVALID]
    _print_waiting(waiting)
    _print_shares(result)
    if not result.binds and not result.evictions and not result.waiting:
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


def _print_binds(binds: Sequence[Bind], own: Collection[str]) -> None:
    if not binds:
        return
    nodes: dict[str, Counter[str]] = {}
    for bind in binds:
        nodes.setdefault(bind.job or bind.pod, Counter())[bind.node] += 1
    bound = FittedTable(Column("bind", shortens=True), number("pods"), Column("to", wraps=True))
    # Jobs of the manifest come first; the session also places other jobs of the cluster.
    for job in sorted(nodes, key=lambda each: each not in own)[:_MOST_ROWS]:
        name = f"[green]{escape(job)}[/]"
        if job not in own:
            name = f"{escape(job)} [dim](in the cluster)[/]"
        bound.add_row(name, str(nodes[job].total()), places(nodes[job], _MOST_NODES))
    print_table(bound)
    _print_rest(len(nodes), "job")


def _print_waiting(waiting: Sequence[JobResult]) -> None:
    if not waiting:
        return
    shown = FittedTable(
        Column("would wait", shortens=True), Column("verdict"), Column("why", wraps=True)
    )
    for each in waiting[:_MOST_ROWS]:
        lacks = [str(short) for short in each.shortages]
        start = () if each.start_estimate is None else (each.start_estimate.sentence,)
        why = " ".join((each.sentence, *start, *(f"[{lack}]" for lack in lacks)))
        shown.add_row(f"[yellow]{escape(each.job)}[/]", each.verdict, escape(why))
    print_table(shown)
    _print_rest(len(waiting), "job")


def _print_rest(count: int, noun: str) -> None:
    if count > _MOST_ROWS:
        rest = counted(count - _MOST_ROWS, f"more {noun}")
        console().print(f"[dim]and {rest}; --json shows all[/]")


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
