"""The benchmarks by name, with their standard sizes and the sizes of the plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pumice.bench import evicting, placing, steady_state
from pumice.bench.clusters import Size
from pumice.bench.configurations import DEFAULT, PROFILES, Profile
from pumice.bench.processes import in_other_process
from pumice.bench.results import Result

# Modules that import gRPC are imported where they are used, and allocate's client runs in another
# process, so that no measurement inside the engine runs in a process with gRPC threads.


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run, apart from its size."""

    profile: Profile = DEFAULT
    # Whether allocate is also measured over the stream.
    with_client: bool = True


Bench = Callable[[Size, RunOptions], Iterator[Result]]
EngineBench = Callable[[Size], Result]


def _allocate(size: Size, options: RunOptions) -> Iterator[Result]:
    inside = placing.allocate(size, options.profile, placing.runs_of(size))
    if not options.with_client:
        yield inside
        return
    from pumice.bench.snapshot import client_view  # noqa: PLC0415

    seen = in_other_process(
        client_view, options.profile.sized(size), options.profile.text, placing.runs_of(size)
    )
    measured = (
        f"{inside.measured}; client: over the stream to a core in a separate process, from the last "
        "acknowledged delta to the last received decision"
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
    yield evicting.preempt_half_without_victims(size, placing.runs_of(size))


def _reclaim(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield evicting.reclaim(size, placing.runs_of(size))


def _idle(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield steady_state.idle(size)
    yield steady_state.heartbeats(size)
    for profile in PROFILES.values():
        yield steady_state.unschedulable(size, profile)
    yield steady_state.freed(size)


def _churn(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    yield steady_state.churn(size)
    yield steady_state.churn_share(size)


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


def _queries(size: Size, _run_options: RunOptions) -> Iterator[Result]:
    from pumice.bench.queries import queries  # noqa: PLC0415

    yield from queries(size)


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
    "queries": _queries,
    "portal": _portal,
    "replay": _replay,
    "judge": _judge,
    "memory": _memory,
}

# Help texts.
MEANINGS: Mapping[str, str] = {
    "allocate": "One session with new gangs, in the engine and over the stream.",
    "allocate-gpu": "One session in the engine with gangs that all request GPUs.",
    "mixed": "One session with selectors, tolerations, anti-affinity, spread, preferences and GPUs.",
    "topology": "One session on a network of three tiers, with gangs limited to one HyperNode of the lowest tier.",
    "sub-groups": "The same with gangs in subgroups of four, each limited to one HyperNode of the lowest tier.",
    "vgpu": "One session with pods that share GPUs.",
    "numa": "One session with Guaranteed pods that get CPUs of one NUMA node.",
    "preempt": "High-priority gangs in a full cluster, with victims for all gangs, and for half of them.",
    "reclaim": "New gangs in two queues of a cluster that a third queue uses completely.",
    "idle": "Sessions without changes, after node heartbeats, with unschedulable gangs, and after one node becomes empty.",
    "churn": "Sessions after the replacement of one pod, and of one percent of all pods.",
    "snapshot": "Snapshot of a cluster between processes, up to the end of the first session.",
    "ingest": "Changes per second, between processes.",
    "delay": "Latency of decisions under a load of changes, of changes during sessions, and of health checks.",
    "queries": "Explain, and Schedule of a gang of 10,000, on a live cluster during sessions.",
    "portal": "Schedule of a small manifest on a live cluster, by one caller and by 100 concurrent callers.",
    "replay": "Replay of a recorded hour of a cluster: the ratio of recorded time to replay time.",
    "judge": "What-if runs of three configurations over a recorded hour of a cluster, in two processes.",
    "memory": "Resident bytes of a core that records, in total, per node and per pod.",
}

# Benchmarks inside the engine by the names of their results, for the cases.
ENGINE_BENCHES: Mapping[str, EngineBench] = {
    "allocate": placing.allocate,
    "allocate-gpu": placing.allocate_gpus,
    "mixed": placing.mixed,
    "topology": placing.topology,
    "sub-groups": placing.sub_groups,
    "vgpu": placing.vgpu,
    "numa": placing.numa,
    "preempt": evicting.preempt,
    "preempt-half-without-victims": evicting.preempt_half_without_victims,
    "reclaim": evicting.reclaim,
    "idle": steady_state.idle,
    "heartbeats": steady_state.heartbeats,
    "unschedulable": steady_state.unschedulable,
    "freed": steady_state.freed,
    "churn": steady_state.churn,
    "churn-share": steady_state.churn_share,
}

# Standard sizes; the targets apply to them.
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
    "queries": (Size(5000, 5000, 10),),
    "portal": (Size(100, 100, 5),),
    # Two jobs in each of 3,600 periods; the number of jobs has no effect.
    "replay": (Size(1000, 7200, 10),),
    "judge": (Size(1000, 7200, 10),),
    "memory": (Size(10_000, 10_000, 10, classes=200),),
}

# Further sizes for the plots: the same pods on more nodes, and more pods on the same nodes.
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
        yield steady_state.idle(size)
    for size in GROWTH["snapshot"]:
        yield from _snapshot(size, options)
