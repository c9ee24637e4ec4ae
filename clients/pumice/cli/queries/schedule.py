"""``pumice schedule``: the decisions for a manifest, without applying it."""

from __future__ import annotations

import time
from typing import Any

import click

from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.queries.manifest import Manifest, read
from pumice.cli.queries.options import core, core_options, output_options, say
from pumice.cli.queries.result_tables import print_result
from pumice.cli.simulation.sources import furnished, read_text
from pumice.cli.terminal import warn
from pumice.client import ScheduleResult
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
    help='Manifest with Jobs, Deployments, PodGroups, Pods …; "-" is standard input.',
)
@click.option(
    "--inline",
    is_flag=True,
    help="Result for the files alone, with their nodes and queues, without a core.",
)
@click.option(
    "--conf", metavar="FILE", help="Scheduler configuration; default: that of the cluster."
)
@click.option(
    "--sessions",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Maximum number of sessions; pods that one session binds run in the next.",
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
    **connection: Any,
) -> int:
    """Shows what a core would decide if a manifest were applied now. Changes nothing.

    Volcano Jobs and workloads of Kubernetes get the pods that their controllers would create. The
    exit code is 1 when a pod of the manifest would stay pending.
    """
    if not (files or named):
        raise click.UsageError("no manifest; name one with -f FILE")
    manifest = read((*files, *named))
    configuration = None if conf is None else read_text(conf)
    if inline:
        result = _inline(manifest, configuration, sessions)
    else:
        with core(**connection) as client:
            result = client.schedule(
                manifest.objects, configuration=configuration, sessions=sessions
            )
    pending = manifest.pending(result)
    if output == "table":
        print_result(result, manifest, pending)
    else:
        own = [{"job": each.job, "why": each.why} for each in pending]
        say({**result.to_dict(), "pending": own}, output)
    return FAILED if pending else 0


def _inline(manifest: Manifest, configuration: str | None, sessions: int) -> ScheduleResult:
    # Only this mode loads the engine, which takes time.
    from pumice.server.local import (  # noqa: PLC0415
        ConfigurationRefusedError,
        ObjectsRejectedError,
        schedule_inline,
    )

    if not manifest.has_nodes:
        warn(
            "the files contain no Node, so nothing can be placed; without --inline the nodes are "
            "those of a core"
        )
    objects = [*manifest.objects, *furnished(manifest.objects)]
    request = ScheduleRequest(
        request_id="inline",
        inline=InlineSource(objects=ObjectSet(other_objects=objects)),
        max_sessions=sessions,
    )
    if configuration is not None:
        request.configuration.CopyFrom(Configuration(scheduler_conf=configuration))
    try:
        return ScheduleResult.from_proto(schedule_inline(request, time.time_ns()))
    except (ConfigurationRefusedError, ObjectsRejectedError) as error:
        raise InputProblem(str(error)) from None
