"""Placement in the engine: one session with new gangs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from pumice.bench import clusters, devices, network
from pumice.bench.clusters import Size
from pumice.bench.configurations import DEFAULT, NUMA, TOPOLOGY, VGPU, Profile
from pumice.bench.engines import INSIDE, bound_in, engine_with, timed, times_in
from pumice.bench.results import Result
from pumice.core.deltas import ClusterObject

# Larger sessions take long enough that one run suffices.
_REPEATED_UP_TO_PODS = 20_000
_RUNS = 3


def runs_of(size: Size) -> int:
    return _RUNS if size.pods <= _REPEATED_UP_TO_PODS else 1


def allocate(size: Size, profile: Profile = DEFAULT, runs: int = 1) -> Result:
    measured = f"one session over new gangs, {INSIDE}"
    return _placed("allocate", clusters.fresh, size, profile, runs, measured)


def allocate_gpus(size: Size, profile: Profile = DEFAULT, runs: int = 1) -> Result:
    measured = f"one session over new gangs that request GPUs, {INSIDE}"
    return _placed("allocate-gpu", clusters.with_gpus, size, profile, runs, measured)


def mixed(size: Size, profile: Profile = DEFAULT, runs: int = 1) -> Result:
    measured = "selectors, tolerations, anti-affinity, spread, preferences and GPUs, a sixth each"
    return _placed(
        "mixed", clusters.mixed, size, profile, runs, f"one session, {measured}; {INSIDE}"
    )


def topology(size: Size, profile: Profile = TOPOLOGY, runs: int = 1) -> Result:
    measured = f"one session over new gangs with hard tier 1 of three tiers, {INSIDE}"
    return _placed("topology", network.with_network, size, profile, runs, measured)


def sub_groups(size: Size, profile: Profile = TOPOLOGY, runs: int = 1) -> Result:
    limits = "subgroups of 4 pods with hard tier 1, the whole gang with hard tier 2"
    measured = f"one session over new gangs in {limits} of three tiers, {INSIDE}"
    return _placed("sub-groups", network.with_sub_groups, size, profile, runs, measured)


def vgpu(size: Size, profile: Profile = VGPU, runs: int = 1) -> Result:
    measured = f"one session over new gangs that share GPUs, {INSIDE}"
    return _placed("vgpu", devices.with_vgpus, size, profile, runs, measured)


def numa(size: Size, profile: Profile = NUMA, runs: int = 1) -> Result:
    measured = f"one session over new gangs, each pod aligned to one NUMA node, {INSIDE}"
    return _placed("numa", devices.with_numa, size, profile, runs, measured)


def _placed(
    bench: str,
    cluster: Callable[[Size], Iterator[ClusterObject]],
    size: Size,
    profile: Profile,
    runs: int,
    measured: str,
) -> Result:
    times, cpu = [], []
    size = profile.sized(size)
    for _ in range(runs):
        engine = engine_with(cluster(size), profile.configuration, profile.registry)
        took, used, result = timed(engine)
        times.append(took)
        cpu.append(used)
        # The memory of this run must not slow down the next one.
        del engine
    bound = bound_in(result)
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "gang_size": size.size,
        "classes": size.classes,
        "queues": size.queues,
        **size.background_figures,
        "configuration": profile.name,
        "bound": bound,
        "left": size.pending_pods - bound,
        "runs": runs,
        "session_s": round(min(times), 4),
        "session_cpu_s": round(min(cpu), 4),
        "session_median_s": round(statistics.median(times), 4),
        "pods_per_s": round(bound / min(times)),
        **times_in(result),
    }
    return Result(bench, f"{measured}; the best run", figures, result.work)
