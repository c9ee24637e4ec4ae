"""Benchmarks inside the engine: what a session costs when much, little or nothing changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.bench.results import Result, milliseconds, quiet_memory, seconds
from pumice.core.configuration import Configuration, PluginOptions
from pumice.core.decisions import Bind, Evict, SessionResult
from pumice.core.deltas import ClusterObject, Deleted, Delta, Upserted
from pumice.core.engine import DEFAULT_CONFIGURATION, Engine
from pumice.core.model.pod import Pod, PodPhase

NOW_NS = 1_800_000_000 * 10**9
SECOND_NS = 10**9
_INSIDE = "inside the engine, one process, caches cold"


def engine_with(
    things: Iterable[ClusterObject], configuration: Configuration = DEFAULT_CONFIGURATION
) -> Engine:
    engine = Engine(configuration)
    rejected = engine.apply(Upserted(thing) for thing in things)
    assert not rejected, rejected[0]
    return engine


def evicting(action: str) -> Configuration:
    """The default plugins with an action that evicts; gang and drf let it take victims."""
    first = tuple(PluginOptions(name) for name in ("priority", "gang", "conformance"))
    names = ("overcommit", "drf", "predicates", "proportion", "nodeorder")
    second = tuple(PluginOptions(name) for name in names)
    return Configuration(("enqueue", "allocate", action, "backfill"), (first, second))


def _timed(engine: Engine, now_ns: int = NOW_NS) -> tuple[float, SessionResult]:
    results: list[SessionResult] = []
    with quiet_memory():
        took = seconds(lambda: results.append(engine.schedule(now_ns)))
    return took, results[0]


def _placed(bench: str, size: Size, engine: Engine, measured: str) -> Result:
    took, result = _timed(engine)
    bound = sum(isinstance(decision, Bind) for decision in result.decisions)
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "gang_size": size.size,
        "classes": size.classes,
        "queues": size.queues,
        "bound": bound,
        "session_s": round(took, 4),
        "pods_per_s": round(bound / took),
    }
    return Result(bench, measured, figures, result.work)


def allocate(size: Size, configuration: Configuration = DEFAULT_CONFIGURATION) -> Result:
    engine = engine_with(clusters.fresh(size), configuration)
    return _placed("allocate", size, engine, f"one session over fresh gangs, {_INSIDE}")


def mixed(size: Size, configuration: Configuration = DEFAULT_CONFIGURATION) -> Result:
    engine = engine_with(clusters.mixed(size), configuration)
    measured = "selectors, tolerations, anti-affinity, spread, preferences and GPUs, a sixth each"
    return _placed("mixed", size, engine, f"{measured}; {_INSIDE}")


def preempt(size: Size, *, hopeless: bool = False) -> Result:
    """High-priority gangs arrive in a full cluster; where hopeless, every other may take nobody."""
    things = [*clusters.full(size, per_node=8, low_queue="queue-0")]
    spec = clusters.spec_of(1000, clusters.GIB)
    for number in range(size.jobs):
        bold = not (hopeless and number % 2)
        asks = spec if bold else replace(spec, never_preempts=True)
        things += clusters.pending_job(number, size.size, asks, "queue-0", "high")
    name = "preempt-half-hopeless" if hopeless else "preempt"
    return _evicted(name, size, engine_with(things, evicting("preempt")))


def reclaim(size: Size) -> Result:
    """Gangs arrive in two queues of a cluster that a third one holds."""
    things = [*clusters.full(size, per_node=8, low_queue="queue-0")]
    spec = clusters.spec_of(1000, clusters.GIB)
    for number in range(size.jobs):
        things += clusters.pending_job(number, size.size, spec, f"queue-{1 + number % 2}")
    return _evicted("reclaim", size, engine_with(things, evicting("reclaim")))


def _evicted(bench: str, size: Size, engine: Engine) -> Result:
    took, result = _timed(engine)
    figures = {
        "nodes": size.nodes,
        "running": 8 * size.nodes,
        "arriving": size.pods,
        "evicted": sum(isinstance(decision, Evict) for decision in result.decisions),
        "session_s": round(took, 4),
    }
    return Result(bench, f"the whole session, {_INSIDE}", figures, result.work)


def idle(size: Size) -> Result:
    """Sessions after which nothing changed, in a cluster where everything runs."""
    engine = engine_with(clusters.settled(size))
    engine.schedule(NOW_NS)
    engine.schedule(NOW_NS + SECOND_NS)
    times = [_timed(engine, NOW_NS + number * SECOND_NS)[0] for number in range(2, 12)]
    figures = {"nodes": size.nodes, "running": size.pods, **milliseconds(times)}
    return Result("idle", "full sessions with nothing changed, none skipped", figures)


def hopeless(size: Size, pending_jobs: int = 1000) -> Result:
    """Sessions with gangs that fit nowhere and wait."""
    things = [*clusters.settled(size)]
    spec = clusters.spec_of(64_000, clusters.GIB)
    for number in range(pending_jobs):
        queue = f"queue-{number % size.queues}"
        things += clusters.pending_job(number, size.size, spec, queue)
    engine = engine_with(things)
    engine.schedule(NOW_NS)
    engine.schedule(NOW_NS + SECOND_NS)
    times = [_timed(engine, NOW_NS + number * SECOND_NS)[0] for number in range(2, 8)]
    figures = {"nodes": size.nodes, "running": size.pods, "pending_gangs": pending_jobs}
    measured = "full sessions with gangs that do not fit, nothing changed, none skipped"
    return Result("hopeless", measured, {**figures, **milliseconds(times)})


def churn(size: Size, share: float = 0.0) -> Result:
    """Sessions after one pod changed, or after a share of all pods finished and came anew."""
    engine = engine_with(clusters.settled(size))
    engine.schedule(NOW_NS)
    count = max(1, int(size.pods * share))
    pods = [task.pod for task in list(engine.cache.tasks.values())[:count]]
    times = []
    for number in range(8):
        engine.apply(_turned_over(pods, number))
        times.append(_timed(engine, NOW_NS + (number + 1) * SECOND_NS)[0])
    figures = {"nodes": size.nodes, "running": size.pods, "changed": count, **milliseconds(times)}
    return Result("churn", "sessions after pods went and came", figures)


def _turned_over(pods: list[Pod], number: int) -> Iterable[Delta]:
    """Each pod is gone, and another one waits in its place."""
    for pod in pods:
        old = pod.uid if number == 0 else f"{pod.uid}-{number - 1}"
        yield Deleted(Pod, old)
        fresh = replace(pod, uid=f"{pod.uid}-{number}", node_name="", phase=PodPhase.PENDING)
        yield Upserted(fresh)
