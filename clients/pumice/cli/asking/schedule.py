"""``pumice schedule``: what would become of a manifest."""

from __future__ import annotations

import time
from collections import Counter
from difflib import get_close_matches
from typing import Any

import click
from rich.markup import escape

from pumice.cli.asking.options import core, core_options, output_options, say
from pumice.cli.asking.tables import amount, resources_of, table
from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.simulation.sources import furnished, named_source, read_text
from pumice.cli.terminal import console, warn
from pumice.client.models import ScheduleResult, Share, seconds_of
from pumice.manifests import translate_all
from pumice.server.local import (
    ConfigurationRefusedError,
    ObjectsRejectedError,
    schedule_inline,
)
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.reason_pb2 import REASON_CODE_QUEUE_MISSING
from pumice.v1.scheduling_service_pb2 import InlineSource, ObjectSet, ScheduleRequest

_MOST_ROWS = 40


@click.command("schedule")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help='A manifest: Jobs, Deployments, PodGroups, Pods … "-" reads standard input.',
)
@click.option(
    "--inline",
    is_flag=True,
    help="The files are all there is, nodes and queues too; no core is asked.",
)
@click.option("--conf", metavar="FILE", help="Another scheduler configuration to try.")
@click.option(
    "--sessions",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Sessions to run, at most; between them bound pods run.",
)
@core_options
@output_options
def schedule_command(
    files: tuple[str, ...],
    inline: bool,
    conf: str | None,
    sessions: int,
    output: str,
    **reached: Any,
) -> int:
    """Says what a core would do with a manifest, were it applied now. Nothing happens.

    Volcano Jobs and Kubernetes' own workloads are written out as their controllers would. Exits
    with 1 when something of it would stay pending.
    """
    objects = _read(files)
    configuration = None if conf is None else Configuration(scheduler_conf=read_text(conf))
    if inline:
        result = _inline(objects, configuration, sessions)
    else:
        with core(**reached) as client:
            result = client.schedule(objects, configuration=configuration, sessions=sessions)
    ours = _jobs(objects)
    if output == "table":
        _print(result, ours)
    else:
        say(_value(result), output)
    return FAILED if any(wait.job in ours for wait in result.waiting) else 0


def _read(files: tuple[str, ...]) -> list[ClusterObject]:
    translation = translate_all(*(named_source(file) for file in files), expand_workloads=True)
    for ignored in translation.ignored:
        warn(str(ignored))
    if translation.errors:
        first, *more = translation.errors
        rest = f" (and {len(more)} more)" if more else ""
        raise InputProblem(f"{first}{rest}")
    if not translation.objects:
        raise InputProblem(f"{', '.join(files)}: nothing in it that is scheduled")
    return translation.objects


def _jobs(objects: list[ClusterObject]) -> set[str]:
    return {
        f"{held.pod_group.namespace}/{held.pod_group.name}"
        for held in objects
        if held.HasField("pod_group")
    }


def _inline(
    objects: list[ClusterObject], configuration: Configuration | None, sessions: int
) -> ScheduleResult:
    objects = [*objects, *furnished(objects)]
    request = ScheduleRequest(
        request_id="inline",
        inline=InlineSource(objects=ObjectSet(other_objects=objects)),
        max_sessions=sessions,
        configuration=configuration,
    )
    try:
        return ScheduleResult.of(schedule_inline(request, time.time_ns()))
    except (ConfigurationRefusedError, ObjectsRejectedError) as error:
        raise InputProblem(str(error)) from None


def _value(result: ScheduleResult) -> dict[str, object]:
    return {
        "basedOnSeq": result.based_on_seq,
        "binds": [{"pod": b.pod, "node": b.node, "job": b.job} for b in result.binds],
        "evictions": [
            {"pod": e.pod, "node": e.node, "reason": e.reason, "forJob": e.for_job}
            for e in result.evictions
        ],
        "waiting": [{"job": w.job, "why": list(w.why)} for w in result.waiting],
        "queuesBefore": [_share(share) for share in result.queues_before],
        "queuesAfter": [_share(share) for share in result.queues_after],
        "sessions": [
            {
                "milliseconds": round(seconds_of(each) * 1000, 3),
                "binds": each.bind_count,
                "evictions": each.evict_count,
                "waiting": each.wait_count,
                "work": dict(sorted(each.work.items())),
            }
            for each in result.message.sessions
        ],
    }


def _share(share: Share) -> dict[str, object]:
    return {
        "queue": share.queue,
        "deserved": dict(sorted(share.deserved.items())),
        "allocated": dict(sorted(share.allocated.items())),
        "requested": dict(sorted(share.requested.items())),
        "share": share.share,
        "overused": share.overused,
    }


def _print(result: ScheduleResult, ours: set[str]) -> None:
    out = console()
    if result.evictions:
        evicted = table("evict", "from", "for", "why")
        for order in result.evictions[:_MOST_ROWS]:
            evicted.add_row(*map(escape, (order.pod, order.node, order.for_job, order.reason)))
        out.print(evicted)
    if result.binds:
        bound = table("bind", "pods", "to", right=("pods",))
        places: dict[str, Counter[str]] = {}
        for bind in result.binds:
            places.setdefault(bind.job or bind.pod, Counter())[bind.node] += 1
        for job, nodes in list(places.items())[:_MOST_ROWS]:
            shown = [f"{node} x{n}" if n > 1 else node for node, n in sorted(nodes.items())]
            more = f" and {len(shown) - 5} more nodes" if len(shown) > 5 else ""
            bound.add_row(
                f"[green]{escape(job)}[/]", str(sum(nodes.values())), ", ".join(shown[:5]) + more
            )
        out.print(bound)
    waiting = [wait for wait in result.waiting if not ours or wait.job in ours]
    if waiting:
        pending = table("would wait", "why")
        for wait in waiting[:_MOST_ROWS]:
            why = "; ".join((*wait.why, *_near_queues(result, wait.job)))
            pending.add_row(f"[yellow]{escape(wait.job)}[/]", escape(why))
        out.print(pending)
    _print_shares(result)
    if not result.binds and not result.evictions and not waiting:
        out.print("Nothing would be decided.")
    spent = sum(map(seconds_of, result.message.sessions)) * 1000
    many = len(result.message.sessions)
    told = f"{many} sessions" if many > 1 else "1 session"
    told += f", {spent:.1f} ms"
    if result.based_on_seq:
        told += f", as of op {result.based_on_seq} of the live cluster"
    out.print(f"[dim]{told}[/]")


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
    shares = table("queue", "resource", "before", "after", "deserved")
    for old, new in changed:
        for name in resources_of(old.allocated, new.allocated):
            values = (old.allocated, new.allocated, new.deserved)
            shares.add_row(new.queue, name, *(amount(name, v.get(name, 0)) for v in values))
    console().print(shares)
