"""``pumice bench``: measures, and prints one line of JSON a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from pumice.bench import sessions
from pumice.bench.clusters import Size
from pumice.bench.results import Result
from pumice.bench.stream import stream
from pumice.core.configuration import Configuration
from pumice.core.engine import DEFAULT_CONFIGURATION
from pumice.core.registry import Registry
from pumice.server import configuration as served
from pumice.v1.configuration_pb2 import Configuration as ConfigurationMessage

Bench = Callable[[Size, Configuration], list[Result]]

# What runs without numbers of one's own: the sizes that the bars are set for.
SIZES: Mapping[str, tuple[Size, ...]] = {
    "allocate": (
        Size(1000, 1000, 10),
        Size(5000, 1000, 10),
        Size(5000, 10_000, 1),
        Size(5000, 1, 10_000, classes=1),
    ),
    "mixed": (Size(1000, 300, 10),),
    "preempt": (Size(1000, 50, 10, classes=1),),
    "reclaim": (Size(1000, 50, 10, classes=1),),
    "idle": (Size(5000, 5000, 10),),
    "churn": (Size(5000, 5000, 10),),
    "stream": (Size(5000, 10_000, 10),),
}


def _allocate(size: Size, configuration: Configuration) -> list[Result]:
    return [sessions.allocate(size, configuration)]


def _mixed(size: Size, configuration: Configuration) -> list[Result]:
    return [sessions.mixed(size, configuration)]


def _preempt(size: Size, _configuration: Configuration) -> list[Result]:
    return [sessions.preempt(size), sessions.preempt(size, hopeless=True)]


def _reclaim(size: Size, _configuration: Configuration) -> list[Result]:
    return [sessions.reclaim(size)]


def _idle(size: Size, _configuration: Configuration) -> list[Result]:
    return [sessions.idle(size), sessions.hopeless(size)]


def _churn(size: Size, _configuration: Configuration) -> list[Result]:
    return [sessions.churn(size), sessions.churn(size, share=0.01)]


def _stream(size: Size, _configuration: Configuration) -> list[Result]:
    return stream(size)


BENCHES: Mapping[str, Bench] = {
    "allocate": _allocate,
    "mixed": _mixed,
    "preempt": _preempt,
    "reclaim": _reclaim,
    "idle": _idle,
    "churn": _churn,
    "stream": _stream,
}


# On somebody's cluster, so it is not one of all.
_END_TO_END = "endtoend"
_END_TO_END_SIZE = Size(1000, 300, 10)


@click.command("bench")
@click.argument("name", type=click.Choice(["all", *BENCHES, _END_TO_END]), default="all")
@click.option("--nodes", type=click.IntRange(1), help="Nodes of the cluster.")
@click.option("--jobs", type=click.IntRange(1), help="Jobs that arrive or run.")
@click.option("--size", type=click.IntRange(1), help="Pods of a job.")
@click.option("--queues", type=click.IntRange(1), help="Queues; four unless said otherwise.")
@click.option("--classes", type=click.IntRange(1), help="Kinds of pods.")
@click.option("--conf", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    help="For endtoend: an empty cluster with the definitions and queues of deploy/.",
)
@click.option("--json", "as_json", is_flag=True, help="Always so: one line of JSON a result.")
def bench_command(
    name: str,
    nodes: int | None,
    jobs: int | None,
    size: int | None,
    queues: int | None,
    classes: int | None,
    conf: Path | None,
    kubeconfig: str | None,
    as_json: bool,
) -> None:
    """Measures sessions on clusters made from numbers; prints one line of JSON a result.

    Times depend on the machine and what else it does; ``machine_speed`` says how fast it was.
    The counts under ``work`` are the same everywhere.
    """
    del as_json
    configuration = _configuration(conf)
    own = {"nodes": nodes, "jobs": jobs, "size": size, "queues": queues, "classes": classes}
    given = {key: value for key, value in own.items() if value is not None}
    if name == _END_TO_END:
        _measure_end_to_end(_with(_END_TO_END_SIZE, given), kubeconfig)
        return
    for bench in BENCHES if name == "all" else (name,):
        for standard in SIZES[bench][:1] if given else SIZES[bench]:
            chosen = _with(standard, given)
            for result in BENCHES[bench](chosen, configuration):
                click.echo(result.line())


def _measure_end_to_end(size: Size, kubeconfig: str | None) -> None:
    if not kubeconfig:
        raise click.UsageError("endtoend needs a cluster: give --kubeconfig or set KUBECONFIG")
    # Loads the Kubernetes client, which no other measurement should wait for.
    from pumice.bench.endtoend import endtoend  # noqa: PLC0415

    for result in endtoend(size, kubeconfig):
        click.echo(result.line())


def _with(size: Size, given: Mapping[str, int]) -> Size:
    return Size(
        given.get("nodes", size.nodes),
        given.get("jobs", size.jobs),
        given.get("size", size.size),
        given.get("queues", size.queues),
        given.get("classes", size.classes),
    )


def _configuration(path: Path | None) -> Configuration:
    if path is None:
        return DEFAULT_CONFIGURATION
    message = ConfigurationMessage(scheduler_conf=path.read_text(encoding="utf-8"))
    return served.read(message, Registry()).scheduler
