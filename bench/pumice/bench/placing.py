"""Placement in the engine: one session with new gangs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.bench.engines import INSIDE, bound_in, engine_with, timed
from pumice.bench.results import Result
from pumice.core.configuration import DEFAULT_CONFIGURATION, Configuration
from pumice.core.deltas import ClusterObject

# Larger sessions are long enough to be measured once.
_REPEATED_UP_TO_PODS = 20_000
_RUNS = 3


def runs_of(size: Size) -> int:
    return _RUNS if size.pods <= _REPEATED_UP_TO_PODS else 1


def allocate(
    size: Size, configuration: Configuration = DEFAULT_CONFIGURATION, runs: int = 1
) -> Result:
    measured = f"one session over fresh gangs, {INSIDE}"
    return _placed("allocate", clusters.fresh, size, configuration, runs, measured)


def mixed(
    size: Size, configuration: Configuration = DEFAULT_CONFIGURATION, runs: int = 1
) -> Result:
    measured = "selectors, tolerations, anti-affinity, spread, preferences and GPUs, a sixth each"
    return _placed(
        "mixed", clusters.mixed, size, configuration, runs, f"one session, {measured}; {INSIDE}"
    )


def _placed(
    bench: str,
    cluster: Callable[[Size], Iterator[ClusterObject]],
    size: Size,
    configuration: Configuration,
    runs: int,
    measured: str,
) -> Result:
    times = []
    for _ in range(runs):
        engine = engine_with(cluster(size), configuration)
        took, result = timed(engine)
        times.append(took)
        # The memory of this run must not slow down the next one.
        del engine
    bound = bound_in(result)
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "gang_size": size.size,
        "classes": size.classes,
        "queues": size.queues,
        "bound": bound,
        "runs": runs,
        "session_s": round(min(times), 4),
        "session_median_s": round(statistics.median(times), 4),
        "pods_per_s": round(bound / min(times)),
    }
    return Result(bench, f"{measured}; the best run", figures, result.work)
