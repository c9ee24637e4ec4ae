"""Eviction in the engine: one session with new gangs in a full cluster."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.bench.engines import INSIDE, engine_with, evicted_in, timed
from pumice.bench.results import Result
from pumice.core.configuration import Configuration, PluginOptions
from pumice.core.deltas import ClusterObject

PER_NODE = 8


def preempt(size: Size, runs: int = 1) -> Result:
    """High-priority gangs arrive in a cluster that is full of low-priority pods."""
    cluster = lambda: _preempting(size, half_preempt=False)  # noqa: E731
    return _evicted("preempt", "preempt", cluster, size, runs)


def preempt_half_without_victims(size: Size, runs: int = 1) -> Result:
    """The same, but every second gang has no victims."""
    cluster = lambda: _preempting(size, half_preempt=True)  # noqa: E731
    return _evicted("preempt-half-without-victims", "preempt", cluster, size, runs)


def reclaim(size: Size, runs: int = 1) -> Result:
    """Gangs arrive in two queues of a cluster that a third queue uses completely."""
    return _evicted("reclaim", "reclaim", lambda: _reclaiming(size), size, runs)


def evicting(action: str) -> Configuration:
    """The default plugins with an evicting action."""
    first = tuple(PluginOptions(name) for name in ("priority", "gang", "conformance"))
    names = ("overcommit", "drf", "predicates", "proportion", "nodeorder")
    second = tuple(PluginOptions(name) for name in names)
    return Configuration(("enqueue", "allocate", action, "backfill"), (first, second))


def _preempting(size: Size, *, half_preempt: bool) -> list[ClusterObject]:
    things = [*clusters.full(size, per_node=PER_NODE, low_queue="queue-0")]
    spec = clusters.spec_of(1000, clusters.GIB)
    for number in range(size.jobs):
        never_preempts = half_preempt and number % 2 == 1
        gang_spec = replace(spec, never_preempts=True) if never_preempts else spec
        things += clusters.pending_job(number, size.size, gang_spec, "queue-0", "high")
    return things


def _reclaiming(size: Size) -> list[ClusterObject]:
    things = [*clusters.full(size, per_node=PER_NODE, low_queue="queue-0")]
    spec = clusters.spec_of(1000, clusters.GIB)
    for number in range(size.jobs):
        things += clusters.pending_job(number, size.size, spec, f"queue-{1 + number % 2}")
    return things


def _evicted(
    bench: str, action: str, cluster: Callable[[], list[ClusterObject]], size: Size, runs: int
) -> Result:
    times, cpu = [], []
    for _ in range(runs):
        took, used, result = timed(engine_with(cluster(), evicting(action)))
        times.append(took)
        cpu.append(used)
    figures = {
        "nodes": size.nodes,
        "running": PER_NODE * size.nodes,
        "arriving": size.pods,
        "gang_size": size.size,
        **size.background_figures,
        "evicted": evicted_in(result),
        "runs": runs,
        "session_s": round(min(times), 4),
        "session_cpu_s": round(min(cpu), 4),
        "session_median_s": round(statistics.median(times), 4),
    }
    return Result(bench, f"the whole session, {INSIDE}; the best run", figures, result.work)
