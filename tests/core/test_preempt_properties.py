"""Preemption and reclaiming on random clusters: what always holds, and that bounds only save time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Evict, SessionResult
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.pod import HostPort, Pod, PodPhase
from pumice.core.model.selectors import Taint, TaintEffect
from pumice.core.session.evicting import NodeEvictions
from pumice.core.session.evicting.order import VictimOrder
from pumice.core.session.evicting.search import VictimSearch
from pumice.core.session.feasibility.filters import Feasibility
from pumice.core.session.hooks import Votes
from pumice.core.session.placing.statement import Statement
from pumice.core.session.policies import VictimRule
from pumice.core.session.session import Session
from tests.core.builders import node, pod, pod_group, priority_class, queue
from tests.core.evicting import PLAIN, STOCK, Tiers, engine, opened, run

OFF = {"enablePreemptable": False, "enableReclaimable": False}
CONFIGURATIONS: list[Tiers] = [
    STOCK,
    PLAIN,
    (("gang", "priority"), ("drf",), ("predicates", "proportion")),
    (("conformance", "priority", "drf"), ("gang", "predicates", "nodeorder")),
    (("priority", "drf", "gang"), ("proportion", "predicates")),
    (({"name": "gang", **OFF}, "priority"), ("proportion", "conformance", "predicates")),
    (("drf", {"name": "gang", **OFF}), ("predicates", "binpack", "proportion")),
]
ACTIONS = ["preempt", "allocate, preempt", "reclaim", "allocate, reclaim, preempt"]
seeds = st.integers(0, 2**32)


def cluster(seed: int, nodes: int = 6, jobs: int = 7) -> list[ClusterObject]:
    """Nodes more or less full of jobs of three priorities in two queues, others waiting."""
    dice = random.Random(seed)
    objects: list[ClusterObject] = [queue("q1", weight=2), queue("q2", capability=(("cpu", 9000),))]
    objects += [priority_class(f"p{level}", level * 10) for level in range(3)]
    room = {}
    for number in range(nodes):
        taints = (Taint("k", "v", TaintEffect.NO_SCHEDULE),) if dice.random() < 0.15 else ()
        name = f"n{number}"
        room[name] = dice.choice([2, 4, 4, 6])
        objects.append(node(name, room[name], 16, dice.choice([4, 110]), taints=taints))
    for number in range(jobs):
        name, size = f"j{number}", dice.randint(1, 5)
        level = dice.randrange(3)
        objects.append(
            pod_group(
                name,
                dice.randint(0, size),
                queue_name=dice.choice(["q1", "q1", "q2"]),
                phase=dice.choice([PodGroupPhase.RUNNING, PodGroupPhase.INQUEUE]),
                priority_class_name=f"p{level}",
                creation_time_ns=dice.randrange(3),
            )
        )
        objects += [_pod(dice, room, name, level, i) for i in range(size)]
    return objects


def _pod(dice: random.Random, room: dict[str, int], job: str, level: int, number: int) -> Pod:
    cpu = dice.choice([0, 1, 1, 1, 2, 3])
    fits = [name for name, left in room.items() if left >= cpu]
    on = dice.choice(fits) if fits and dice.random() < 0.75 else ""
    if on:
        room[on] -= cpu
    ports = (HostPort("TCP", "0.0.0.0", 80),) if dice.random() < 0.1 else ()
    made = pod(
        f"{job}-t-{number}",
        job,
        cpu,
        on=on,
        spec={"host_ports": ports},
        role=dice.choice(["", "w"]),
        priority=level,
        task_priority=dice.choice([1, 1, 2, 5]),
        preemptable=dice.random() < 0.9,
        creation_time_ns=dice.randrange(3),
        nominated_node_name=dice.choice(["", "", "", "n1"]) if not on else "",
    )
    return made


class _Forgetful(dict[Any, int]):
    """Never finds what it was told."""

    def get(self, key: Any, default: Any = None) -> Any:
        return default


class _Walked:
    """Who is on a node, looked up each time."""

    def __init__(self, search: VictimSearch) -> None:
        self._session = search._session

    def __getitem__(self, row: int) -> list[tuple[Task, Job]]:
        session = self._session
        return [
            (task, session.jobs[task.job_id])
            for task in session.table.rows[row].tasks_in_order()
            if task.pod.preemptable and task.job_id in session.jobs
        ]


def _by_comparing(order: VictimOrder, victims: list[Task], preemptor: Task) -> Iterator[Task]:
    """Victims from a heap that compares them."""
    heap = order._session.orders.victims(victims, preemptor)
    while heap:
        yield heap.pop()


@contextmanager
def exhaustive() -> Iterator[None]:
    """Every node is looked at for every task, and nothing is remembered or taken together."""
    with pytest.MonkeyPatch.context() as patch:
        everywhere = lambda self, *_: np.ones(len(self._session.table), dtype=np.bool_)  # noqa: E731
        patch.setattr(VictimSearch, "possible_rows", everywhere)
        patch.setattr(VictimSearch, "rows_with_candidates", everywhere)
        walked = property(_Walked, lambda _search, _memo: None)
        patch.setattr(VictimSearch, "_preemptable", walked, raising=False)
        patch.setattr(VictimOrder, "in_order", _by_comparing)
        patch.setattr(Feasibility, "is_refused", lambda self, *of: bool(self.refused_by(*of)))
        patch.setattr(Feasibility, "_has_pod_limits_only", lambda *_: False)
        start = NodeEvictions.__init__

        def forgetful(self: NodeEvictions, *of: Any, **how: Any) -> None:
            start(self, *of, **how)
            self._failed = _Forgetful()

        patch.setattr(NodeEvictions, "__init__", forgetful)
        yield


def outcome(result: SessionResult) -> tuple[object, ...]:
    return (result.decisions, result.statuses, result.events)


@settings(max_examples=150, deadline=None)
@given(
    seeds, st.sampled_from(CONFIGURATIONS), st.sampled_from(ACTIONS), st.booleans(), st.booleans()
)
def test_bounds_change_nothing_but_the_time(
    seed: int, tiers: Tiers, actions: str, dry_run: bool, cache: bool
) -> None:
    arguments: dict[str, Any] = {"predicateErrorCacheEnable": cache}
    if actions.endswith("preempt"):
        arguments["enableTopologyAwarePreemption"] = dry_run
    objects = cluster(seed)
    quick = engine(actions, tiers, objects, **arguments)
    first, second = run(quick), run(quick)
    with exhaustive():
        slow = engine(actions, tiers, objects, **arguments)
        assert outcome(first) == outcome(run(slow))
        assert outcome(second) == outcome(run(slow))


class _Witness:
    """Sees every offer of victims and every eviction, and objects when one was wrong."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.preemptor: Task | None = None
        self.offered: set[str] = set()
        self.evictions = 0
        self.checks_queue = True
        for name in ("preemptable", "reclaimable"):
            patch.setattr(Votes, name, self._hearing(name))
        evict = Statement.evict

        def watched(statement: Statement, task: Task, reason: str) -> None:
            self._check(statement._session, task, reason)
            evict(statement, task, reason)

        patch.setattr(Statement, "evict", watched)

    def _hearing(self, name: str) -> Any:
        ask = getattr(Votes, name)

        def asked(votes: Votes, task: Task, candidates: list[Task]) -> list[Task]:
            found: list[Task] = ask(votes, task, candidates)
            self.preemptor, self.offered = task, {victim.uid for victim in found}
            return found

        return asked

    def _check(self, session: Session, victim: Task, reason: str) -> None:
        self.evictions += 1
        task = self.preemptor
        assert task is not None
        assert victim.uid in self.offered, "nobody offered it"
        row = session.table.row_of(victim.node_name)
        assert row is not None
        view = session.view(task)
        fits = bool(view.fits_future[row])
        if reason == "preempt":
            queue_ = session.queue_of(session.jobs[task.job_id])
            fits = (
                fits
                and session.votes.is_allocatable(queue_, task)
                and not session.feasibility.refused_by(task, view, row)
            )
        assert not fits, "the task fits already"


@settings(max_examples=100, deadline=None)
@given(seeds, st.sampled_from(CONFIGURATIONS), st.sampled_from(ACTIONS))
def test_only_offered_tasks_are_evicted_and_none_after_the_task_fits(
    seed: int, tiers: Tiers, actions: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _Witness(patch)
        run(engine(actions, tiers, cluster(seed)))


@settings(max_examples=100, deadline=None)
@given(seeds, st.sampled_from(CONFIGURATIONS), st.sampled_from(ACTIONS))
def test_nodes_are_never_promised_more_than_they_will_have(
    seed: int, tiers: Tiers, actions: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        promise = Statement.pipeline

        def watched(statement: Statement, task: Task, node_name: str, **how: bool) -> bool:
            done = promise(statement, task, node_name, **how)
            table = statement._session.table
            row = table.row_of(node_name)
            asked = table.vector(task.class_) > 0
            assert (table.future[asked, row] >= 0).all()
            return done

        patch.setattr(Statement, "pipeline", watched)
        run(engine(actions, tiers, cluster(seed)))


@settings(max_examples=100, deadline=None)
@given(seeds, st.sampled_from(CONFIGURATIONS))
def test_a_discarded_statement_leaves_everything_as_it_was(seed: int, tiers: Tiers) -> None:
    dice = random.Random(seed)
    made = engine("preempt", tiers, cluster(seed))
    session = opened(made)
    before, whole = _amounts_of(session), session.table.amounts.copy()
    statement = session.statement()
    placed = [t for job in session.jobs.values() for t in job.index if t.node_name]
    waiting = [t for job in session.jobs.values() for t in job.index if not t.node_name]
    for task in dice.sample(placed, min(4, len(placed))):
        statement.evict(task, "preempt")
    for task in dice.sample(waiting, min(3, len(waiting))):
        statement.pipeline(task, dice.choice(session.table.names), eviction_occurred=True)
    statement.discard()
    after = _amounts_of(session)
    assert after.keys() == before.keys()
    for key, value in before.items():
        assert np.array_equal(np.asarray(after[key]), np.asarray(value)), key
    session.moves.finish()
    assert np.array_equal(session.table.amounts, whole)


def _amounts_of(session: Session) -> dict[str, Any]:
    """All that a session counts by, Kubernetes' view of nodes excepted."""
    table = session.table
    counted: dict[str, Any] = {
        part: getattr(table, part).copy() for part in ("idle", "used", "releasing", "future")
    }
    for job in session.jobs.values():
        held = [amount for _, amount in job.index.allocated.items()]
        counted[job.id] = [job.index.ready_count, job.index.waiting_count, *held]
        for point in ("preemptable", "reclaimable"):
            for name, rule in getattr(session.hooks, point).items():
                if isinstance(rule, VictimRule):
                    counted[f"{job.id} {point} {name}"] = float(rule.mark(job))
    return counted


@settings(max_examples=50, deadline=None)
@given(seeds, st.sampled_from(CONFIGURATIONS))
def test_victims_do_not_depend_on_the_order_of_arrival(seed: int, tiers: Tiers) -> None:
    objects = cluster(seed)
    mixed = objects.copy()
    random.Random(seed).shuffle(mixed)
    results = [run(engine("allocate, preempt, reclaim", tiers, o)) for o in (objects, mixed)]
    assert results[0].decisions == results[1].decisions


def _full(nodes: int, **arrivals: Any) -> Engine:
    """Nodes full of one-core pods of low priority, and gangs that come."""
    objects: list[ClusterObject] = [queue(), priority_class("p1", 1), priority_class("p9", 9)]
    for number in range(nodes):
        objects.append(node(f"n{number:03}", 4))
        group = f"low{number}"
        objects.append(pod_group(group, 0, phase=PodGroupPhase.RUNNING, priority_class_name="p1"))
        objects += [pod(f"{group}-t-{i}", group, on=f"n{number:03}") for i in range(4)]
    for number in range(4):
        group = f"new{number}"
        objects.append(pod_group(group, 5, **{"priority_class_name": "p9", **arrivals}))
        objects += [pod(f"{group}-t-{i}", group) for i in range(5)]
    return engine("allocate, preempt", PLAIN, objects)


def test_only_nodes_with_a_chance_are_looked_at() -> None:
    result = run(_full(60))
    assert sum(isinstance(decision, Evict) for decision in result.decisions) == 20
    # What was promising a moment ago is taken to be so still, and looked at again if it is not.
    assert result.work["cached_rows_failed"] == 4
    assert result.work["nodes_tried_for_victims"] == 24


def test_where_nobody_can_be_a_victim_no_node_is_looked_at() -> None:
    result = run(_full(60, priority_class_name="p1"))
    assert result.decisions == ()
    assert "nodes_tried_for_victims" not in result.work


def test_bound_tasks_count_like_running_ones() -> None:
    objects: list[Any] = [
        replace(o, phase=PodPhase.PENDING) if isinstance(o, Pod) else o for o in cluster(3)
    ]
    quick = run(engine("preempt", STOCK, objects))
    with exhaustive():
        assert outcome(quick) == outcome(run(engine("preempt", STOCK, objects)))
