"""What a core would decide, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

from rich.markup import escape

from pumice.cli.asking.reading import Manifest
from pumice.cli.asking.tables import print_table, resources_of, table
from pumice.cli.terminal import console
from pumice.client.amounts import amount
from pumice.client.models import BindOrder, EvictOrder, ScheduleResult, Waiting, seconds_of
from pumice.v1.reason_pb2 import REASON_CODE_QUEUE_MISSING

_MOST_ROWS = 40
_MOST_NODES = 5


def print_outcome(result: ScheduleResult, manifest: Manifest, waiting: Sequence[Waiting]) -> None:
    _print_evictions(result.evictions)
    _print_binds(result.binds, manifest)
    # Without jobs of its own the question is about those that are there, as with one more node.
    shown = waiting if waiting or manifest.groups else result.waiting
    _print_waiting(result, shown)
    _print_shares(result)
    if not result.binds and not result.evictions and not shown:
        console().print("Nothing would be decided.")
    spent = sum(map(seconds_of, result.message.sessions)) * 1000
    many = len(result.message.sessions)
    told = f"{many} sessions" if many > 1 else "1 session"
    told += f", {spent:.1f} ms"
    if result.based_on_seq:
        told += f", as of op {result.based_on_seq} of the live cluster"
    console().print(f"[dim]{told}[/]")


def _print_evictions(evictions: Sequence[EvictOrder]) -> None:
    if not evictions:
        return
    evicted = table("evict", "from", "for", "why", wide="why")
    for order in evictions[:_MOST_ROWS]:
        evicted.add_row(*map(escape, (order.pod, order.node, order.for_job, order.reason)))
    print_table(evicted)
    _print_rest(len(evictions), "evictions")


def _print_binds(binds: Sequence[BindOrder], manifest: Manifest) -> None:
    if not binds:
        return
    places: dict[str, Counter[str]] = {}
    for bind in binds:
        places.setdefault(bind.job or bind.pod, Counter())[bind.node] += 1
    bound = table("bind", "pods", "to", right=("pods",), wide="to")
    # Those asked about come first; the same session places others too.
    for job in sorted(places, key=lambda each: not manifest.is_ours(each))[:_MOST_ROWS]:
        nodes = places[job]
        shown = [f"{node} x{n}" if n > 1 else node for node, n in sorted(nodes.items())]
        more = f" and {len(shown) - _MOST_NODES} more nodes" if len(shown) > _MOST_NODES else ""
        name = f"[green]{escape(job)}[/]"
        if manifest.groups and not manifest.is_ours(job):
            name = f"{escape(job)} [dim](in the cluster)[/]"
        bound.add_row(name, str(sum(nodes.values())), ", ".join(shown[:_MOST_NODES]) + more)
    print_table(bound)
    _print_rest(len(places), "jobs")


def _print_waiting(result: ScheduleResult, waiting: Sequence[Waiting]) -> None:
    if not waiting:
        return
    pending = table("would wait", "why", wide="why")
    for wait in waiting[:_MOST_ROWS]:
        why = "; ".join((*wait.why, *_near_queues(result, wait.job)))
        pending.add_row(f"[yellow]{escape(wait.job)}[/]", escape(why))
    print_table(pending)
    _print_rest(len(waiting), "jobs")


def _print_rest(count: int, what: str) -> None:
    if count > _MOST_ROWS:
        console().print(f"[dim]and {count - _MOST_ROWS} more {what}; --json has all[/]")


def _near_queues(result: ScheduleResult, job: str) -> list[str]:
    """A queue that does not exist may be one that was misspelt."""
    there = [share.queue for share in result.queues_after]
    missing = [
        name
        for wait in result.message.waits
        if wait.job == job
        for reason in wait.reasons
        if reason.code == REASON_CODE_QUEUE_MISSING
        for name in reason.subjects
    ]
    near = [name for each in missing for name in get_close_matches(each, there, n=1)]
    return [f"did you mean {name}?" for name in near]


def _print_shares(result: ScheduleResult) -> None:
    before = {share.queue: share for share in result.queues_before}
    changed = [
        (before[share.queue], share)
        for share in result.queues_after
        if share.queue in before and before[share.queue].allocated != share.allocated
    ]
    if not changed:
        return
    numbers = ("before", "after", "deserved")
    shares = table("queue", "resource", *numbers, right=numbers)
    for old, new in changed:
        for name in resources_of(old.allocated, new.allocated):
            values = (old.allocated, new.allocated, new.deserved)
            shares.add_row(escape(new.queue), name, *(amount(name, v.get(name, 0)) for v in values))
    print_table(shares)
