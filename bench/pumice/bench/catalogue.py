"""The benchmarks by name, with their standard sizes and the sizes of the plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pumice.bench import evicting, placing, resting
from pumice.bench.clusters import Size
from pumice.bench.configurations import DEFAULT, PROFILES, Profile
from pumice.bench.processes import apart
from pumice.bench.results import Result

# The client's side of the stream is loaded by those who use it, and allocate's runs apart: nothing
# inside the engine is measured in a process with threads of gRPC.


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run besides its size."""

    profile: Profile = DEFAULT
    # Measure allocate over the stream, too.
    with_client: bool = True


Bench = Callable[[Size, RunOptions], Iterator[Result]]
EngineBench = Callable[[Size], Result]


def _allocate(size: Size, options: RunOptions) -> Iterator[Result]:
    inside = placing.allocate(size, options.profile, placing.runs_of(size))
    if not options.with_client:
        yield inside
        return
    from pumice.bench.snapshot import client_view  # noqa: PLC0415

    seen = apart(
        client_view, options.profile.sized(size), options.profile.text, placing.runs_of(size)
    )
    measured = (
        f"{inside.measured}; client: over the stream to a core in a process of its own, from the "
        "last delta acknowledged to the last decision received"
    )
    yield replace(inside, figures={**inside.figures, **seen}, measured=measured)


def _allocate_gpus(size: Size, options: RunOptions) -> Iterator[Result]:
    yield placing.allocate_gpus(size, options.profile, placing.runs_of(size))


def _mixed(size: Size, options: RunOptions) -> Iterator[Result]:
    yield placing.mixed(size, options.profile, placing.runs_of(size))


def _topology(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield placing.topology(size, runs=placing.runs_of(size))


def _sub_groups(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield placing.sub_groups(size, runs=placing.runs_of(size))


def _vgpu(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield placing.vgpu(size, runs=placing.runs_of(size))


def _numa(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield placing.numa(size, runs=placing.runs_of(size))


def _preempt(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield evicting.preempt(size, placing.runs_of(size))
    yield evicting.preempt_half_hopeless(size, placing.runs_of(size))


def _reclaim(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield evicting.reclaim(size, placing.runs_of(size))


def _idle(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield resting.idle(size)
    yield resting.heartbeats(size)
    for profile in PROFILES.values():
        yield resting.hopeless(size, profile)
    yield resting.freed(size)


def _churn(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield resting.churn(size)
    yield resting.churn_share(size)


def _snapshot(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.snapshot import snapshot  # noqa: PLC0415

    yield snapshot(size)


def _ingest(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.ingest import ingest  # noqa: PLC0415

    yield from ingest(size)


def _delay(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.delay import delay  # noqa: PLC0415

    yield from delay(size)


def _portal(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.portal import portal  # noqa: PLC0415

    yield from portal(size)


def _asking(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.asking import asking  # noqa: PLC0415

    yield from asking(size)


def _replay(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.replaying import replay  # noqa: PLC0415

    yield replay(size)


def _judge(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.replaying import judge_candidates  # noqa: PLC0415

    yield judge_candidates(size)


def _memory(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.memory import memory  # noqa: PLC0415

    yield memory(size)


BENCHES: Mapping[str, Bench] = {
    "allocate": _allocate,
    "allocate-gpu": _allocate_gpus,
    "mixed": _mixed,
    "topology": _topology,
    "sub-groups": _sub_groups,
    "vgpu": _vgpu,
    "numa": _numa,
    "preempt": _preempt,
    "reclaim": _reclaim,
    "idle": _idle,
    "churn": _churn,
    "snapshot": _snapshot,
    "ingest": _ingest,
    "delay": _delay,
    "asking": _asking,
    "portal": _portal,
    "replay": _replay,
    "judge": _judge,
    "memory": _memory,
}

# Help texts.
MEANINGS: Mapping[str, str] = {
    "allocate": "One session with new gangs, in the engine and over the stream.",
    "allocate-gpu": "One session in the engine with gangs that all ask for GPUs.",
    "mixed": "One session with selectors, tolerations, anti-affinity, spread, preferences and GPUs.",
    "topology": "One session on a network of three tiers, with gangs that stay within the lowest tier.",
    "sub-groups": "The same with gangs in parts of four, of which each stays within the lowest tier.",
    "vgpu": "One session with pods that share GPUs.",
    "numa": "One session with Guaranteed pods that get cpus of one NUMA node.",
    "preempt": "High-priority gangs in a full cluster, also where half of them find no victims.",
    "reclaim": "New gangs in two queues of a cluster that a third queue uses.",
    "idle": "Sessions without changes, after heartbeats of nodes, with gangs that do not fit, and after a node became empty.",
    "churn": "Sessions after the replacement of one pod, and of one percent of all pods.",
    "snapshot": "Snapshot of a cluster between processes, up to the end of the first session.",
    "ingest": "Changes per second, between processes.",
    "delay": "How long decoding delays sessions, and sessions delay decoding.",
    "asking": "Explain, and Schedule of a gang of 10,000, on a live cluster during sessions.",
    "portal": "Schedule of a small manifest on a live cluster, one after the other and by 100 callers at once.",
    "replay": "An hour of a cluster, recorded and replayed: the ratio of recorded to replay time.",
    "judge": "Three configurations judged over an hour of a cluster, in two processes.",
    "memory": "Resident bytes of a core that records, in total, per node and per pod.",
}

# Benchmarks in the engine, by the names of their results, for the cases.
ENGINE_BENCHES: Mapping[str, EngineBench] = {
    "allocate": placing.allocate,
    "allocate-gpu": placing.allocate_gpus,
    "mixed": placing.mixed,
    "topology": placing.topology,
    "sub-groups": placing.sub_groups,
    "vgpu": placing.vgpu,
    "numa": placing.numa,
    "preempt": evicting.preempt,
    "preempt-half-hopeless": evicting.preempt_half_hopeless,
    "reclaim": evicting.reclaim,
    "idle": resting.idle,
    "heartbeats": resting.heartbeats,
    "hopeless": resting.hopeless,
    "freed": resting.freed,
    "churn": resting.churn,
    "churn-share": resting.churn_share,
}

# Standard sizes, for which the targets are set.
SIZES: Mapping[str, tuple[Size, ...]] = {
    "allocate": (
        Size(1000, 1000, 10),
        Size(5000, 1000, 10),
        Size(5000, 10_000, 1),
        Size(5000, 1, 10_000, classes=1),
        Size(10_000, 10_000, 10),
    ),
    "allocate-gpu": (Size(1000, 1000, 10),),
    "mixed": (Size(1000, 300, 10),),
    "topology": (Size(1000, 200, 16),),
    "sub-groups": (Size(1000, 200, 16),),
    "vgpu": (Size(1000, 1000, 10),),
    "numa": (Size(1000, 1000, 10),),
    "preempt": (Size(1000, 50, 10, classes=1),),
    "reclaim": (Size(1000, 50, 10, classes=1),),
    "idle": (Size(5000, 5000, 10),),
    "churn": (Size(5000, 5000, 10),),
    "snapshot": (Size(5000, 10_000, 10),),
    "ingest": (Size(5000, 5000, 10),),
    "delay": (Size(1000, 1000, 10),),
    "asking": (Size(5000, 5000, 10),),
    "portal": (Size(100, 100, 5),),
    # Two jobs in each of 3,600 periods, whatever the number of jobs.
    "replay": (Size(1000, 7200, 10),),
    "judge": (Size(1000, 7200, 10),),
    "memory": (Size(10_000, 10_000, 10, classes=200),),
}

# Further sizes for plots: more nodes with the same pods, more pods on the same nodes.
GROWTH: Mapping[str, tuple[Size, ...]] = {
    "allocate": (
        *(Size(nodes, 1000, 10) for nodes in (500, 2000, 10_000)),
        *(Size(5000, jobs, 10) for jobs in (100, 250, 500, 2500, 5000)),
    ),
    "idle": tuple(Size(5000, jobs, 10) for jobs in (500, 1000, 2500, 10_000)),
    "snapshot": tuple(Size(5000, jobs, 10) for jobs in (1000, 2500, 5000)),
}


def growth(options: RunOptions) -> Iterator[Result]:
    """The results for the plots."""
    inside = replace(options, with_client=False)
    for size in GROWTH["allocate"]:
        yield from _allocate(size, inside)
    for size in GROWTH["idle"]:
        yield resting.idle(size)
    for size in GROWTH["snapshot"]:
        yield from _snapshot(size, options)
