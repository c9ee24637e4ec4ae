"""Sessions in the engine after few or no changes; none is skipped."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pumice.bench import clusters
from pumice.bench.background import Background
from pumice.bench.clusters import Size
from pumice.bench.configurations import DEFAULT, Profile
from pumice.bench.engines import (
    NOW_NS,
    SECOND_NS,
    Sessions,
    engine_with,
    round_ns,
    sessions_after,
)
from pumice.bench.results import Result, milliseconds, seconds
from pumice.core.deltas import ClusterObject, Deleted, Delta, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroup, PodGroupPhase, PodGroupStatus, Queue, QueueState
from pumice.core.model.pod import Pod, PodPhase

_ROUNDS = 8
_SECONDS_BETWEEN_REPORTS = 10
_FULL = "full sessions, none skipped"


def idle(size: Size) -> Result:
    """Sessions without changes; all pods run."""
    engine = _settled(clusters.settled(size))
    found = sessions_after(engine, _ROUNDS, lambda _: ())
    return _result("idle", f"nothing changed; {_FULL}", size, found, {})


def heartbeats(size: Size) -> Result:
    """A tenth of the nodes report their status before each session."""
    engine = _settled(clusters.settled(size))
    nodes, background = [*engine.cache.nodes], Background(size.seed)
    count = max(1, size.nodes // _SECONDS_BETWEEN_REPORTS)
    found = sessions_after(engine, _ROUNDS, lambda n: background.heartbeats(nodes, count, n))
    measured = f"a tenth of the nodes reported their status; {_FULL}; apply_ms: the reports"
    more = {
        "heartbeats": count,
        "apply_ms": round(1000 * statistics.median(found.apply_seconds), 3),
    }
    return _result("heartbeats", measured, size, found, more)


def unschedulable(size: Size, profile: Profile = DEFAULT) -> Result:
    """Sessions without changes; gangs wait because they do not fit or exceed their queue's quota."""
    pending, size = waiting_gangs(size), profile.sized(size)
    waiting = with_refused if profile.refuses_gangs else with_unschedulable
    engine = _settled(waiting(size, pending), profile)
    found = sessions_after(engine, _ROUNDS, lambda _: ())
    last_ns = round_ns(_ROUNDS - 1)
    assert engine.can_skip(last_ns)
    asked = seconds(lambda: engine.can_skip(last_ns))
    measured = (
        f"no changes, and unschedulable gangs wait; {_FULL}; skip_ms: the check whether a session can "
        "be skipped, which a core runs first"
    )
    more: dict[str, object] = {
        "configuration": profile.name,
        "pending_gangs": pending,
        "skip_ms": round(1000 * asked, 4),
    }
    return _result("unschedulable", measured, size, found, more)


def freed(size: Size) -> Result:
    """One node becomes empty before each session, and one waiting pod fits on it."""
    pending = waiting_gangs(size)
    engine = _settled([*with_unschedulable(size, pending), *_waiting_for_a_node(size, pending)])
    on_node: dict[str, list[Pod]] = {}
    for task in engine.cache.tasks.values():
        on_node.setdefault(task.pod.node_name, []).append(task.pod)

    def ended(number: int) -> Iterator[Delta]:
        for pod in on_node[f"node-{number:05d}"]:
            yield Upserted(replace(pod, phase=PodPhase.SUCCEEDED))

    found = sessions_after(engine, min(_ROUNDS, size.nodes), ended)
    measured = f"all pods of a node ended, and one waiting job fits on it; {_FULL}"
    more = {"pending_gangs": pending, "bound": found.bound}
    return _result("freed", measured, size, found, more)


def churn(size: Size) -> Result:
    """One pod is replaced before each session."""
    return _churned("churn", size, 1)


def churn_share(size: Size) -> Result:
    """One percent of the pods is replaced before each session."""
    return _churned("churn-share", size, max(1, size.pods // 100))


def _churned(bench: str, size: Size, count: int) -> Result:
    engine = _settled(clusters.settled(size))
    pods = [task.pod for task in list(engine.cache.tasks.values())[:count]]
    found = sessions_after(engine, _ROUNDS, lambda number: _turned_over(pods, number))
    measured = f"pods were replaced by new ones; {_FULL}"
    return _result(bench, measured, size, found, {"changed": count, "bound": found.bound})


def waiting_gangs(size: Size) -> int:
    """The number of waiting gangs: one for every five running gangs."""
    return max(1, size.jobs // 5)


def _settled(objects: Iterable[ClusterObject], profile: Profile = DEFAULT) -> Engine:
    engine = engine_with(objects, profile.configuration)
    for number in range(2):
        engine.schedule(NOW_NS + number * SECOND_NS)
    return engine


def with_unschedulable(size: Size, pending: int) -> Iterator[ClusterObject]:
    yield from clusters.settled(size)
    spec = clusters.spec_of(64_000, clusters.GIB)
    for number in range(pending):
        queue = f"queue-{number % size.queues}"
        yield from clusters.pending_job(number, size.size, spec, queue)


def with_refused(size: Size, pending: int) -> Iterator[ClusterObject]:
    """Gangs in a queue whose capability is one core; every second gang is not admitted yet."""
    yield from clusters.settled(size)
    parent = "team-0" if size.queue_tree else ""
    limit = (("cpu", 1000),)
    yield Queue("uid-small", "small", parent=parent, capability=limit, state=QueueState.OPEN)
    spec = clusters.spec_of(2000, clusters.GIB)
    for number in range(pending):
        group, *pods = clusters.pending_job(number, size.size, spec, "small")
        if number % 2 and isinstance(group, PodGroup):
            status = PodGroupStatus(PodGroupPhase.PENDING)
            group = replace(group, status=status, min_resources=(("cpu", 2000 * size.size),))
        yield from (group, *pods)


def _waiting_for_a_node(size: Size, first: int) -> Iterator[ClusterObject]:
    """Single pods, each as large as a whole node."""
    spec = clusters.spec_of(clusters.NODE_MILLI_CPU, clusters.GIB)
    for number in range(first, first + _ROUNDS):
        yield from clusters.pending_job(number, 1, spec, f"queue-{size.queues - 1}")


def _result(
    bench: str, measured: str, size: Size, sessions: Sessions, more: Mapping[str, object]
) -> Result:
    figures = {
        "nodes": size.nodes,
        "running": size.pods,
        **size.background_figures,
        **more,
        "sessions": len(sessions.times),
        **milliseconds(sessions.times),
        "cpu_ms": round(1000 * statistics.median(sessions.cpu), 3),
    }
    return Result(bench, measured, figures, sessions.work)


def _turned_over(pods: list[Pod], number: int) -> Iterator[Delta]:
    """Replaces each pod with a pending one."""
    for pod in pods:
        old = pod.uid if number == 0 else f"{pod.uid}-{number - 1}"
        yield Deleted(Pod, old)
        fresh = replace(pod, uid=f"{pod.uid}-{number}", node_name="", phase=PodPhase.PENDING)
        yield Upserted(fresh)
