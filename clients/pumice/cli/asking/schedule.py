"""``pumice schedule``: what would become of a manifest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from pumice.cli.asking.options import core, core_options, output_options, say
from pumice.cli.asking.outcome import print_outcome
from pumice.cli.asking.reading import Manifest, read
from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.simulation.sources import furnished, read_text
from pumice.cli.terminal import warn
from pumice.client.models import ScheduleResult, Share, Waiting, seconds_of
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.scheduling_service_pb2 import InlineSource, ObjectSet, ScheduleRequest


@click.command("schedule")
@click.argument("named", metavar="[FILE]…", nargs=-1)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
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
    named: tuple[str, ...],
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
    if not (files or named):
        raise click.UsageError("there is nothing to try; name a manifest with -f FILE")
    manifest = read((*files, *named))
    configuration = None if conf is None else Configuration(scheduler_conf=read_text(conf))
    if inline:
        result = _inline(manifest, configuration, sessions)
    else:
        with core(**reached) as client:
            result = client.schedule(
                manifest.objects, configuration=configuration, sessions=sessions
            )
    waiting = manifest.waiting(result)
    if output == "table":
        print_outcome(result, manifest, waiting)
    else:
        say(_value(result, waiting), output)
    return FAILED if waiting else 0


def _inline(
    manifest: Manifest, configuration: Configuration | None, sessions: int
) -> ScheduleResult:
    # The engine is needed here only, and takes its time to load.
    from pumice.server.local import (  # noqa: PLC0415
        ConfigurationRefusedError,
        ObjectsRejectedError,
        schedule_inline,
    )

    if not manifest.has_nodes:
        warn(
            "there is no Node in the files, so nothing can be placed; without --inline a core is asked"
        )
    objects = [*manifest.objects, *furnished(manifest.objects)]
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


def _value(result: ScheduleResult, ours: Sequence[Waiting]) -> dict[str, object]:
    listed = {wait.job for wait in result.waiting}
    waiting = [*result.waiting, *(wait for wait in ours if wait.job not in listed)]
    return {
        "basedOnSeq": result.based_on_seq,
        "binds": [{"pod": b.pod, "node": b.node, "job": b.job} for b in result.binds],
        "evictions": [
            {"pod": e.pod, "node": e.node, "reason": e.reason, "forJob": e.for_job}
            for e in result.evictions
        ],
        "waiting": [{"job": w.job, "why": list(w.why)} for w in waiting],
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
