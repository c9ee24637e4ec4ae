"""A plugin of somebody else's, a cluster to try it on, and all that it could leave behind."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np

from pumice.core.configuration import (
    DEFAULT_CONFIGURATION,
    Arguments,
    Configuration,
    PluginOptions,
)
from pumice.core.decisions import SessionResult
from pumice.core.engine import Engine
from pumice.core.model.pod import PodVolume
from pumice.core.model.resources import Resources
from pumice.core.model.storage import PersistentVolumeClaim, StorageClass, VolumePhase
from pumice.core.registry import Registry
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.hooks import Hooks
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, queue

POINTS = [point.name for point in fields(Hooks) if point.name != "handlers"]


def explode(*_: object) -> Any:
    raise ValueError("out of cheese")


class StrangerPlugin:
    """A plugin of somebody else's; each test says what it does."""

    name: ClassVar[str] = "stranger"
    api: ClassVar[int] = 1
    arguments: ClassVar[type[Arguments]] = Arguments

    def __init__(self, options: PluginOptions) -> None:
        pass

    def open(self, session: Session) -> None:
        pass


def stranger(**members: Any) -> type[StrangerPlugin]:
    return type("Stranger", (StrangerPlugin,), members)


def registering(point: str, function: Any) -> type[StrangerPlugin]:
    def open_(self: StrangerPlugin, session: Session) -> None:
        if point == "handlers":
            session.hooks.handlers.insert(0, function)
        else:
            getattr(session.hooks, point)["stranger"] = function

    return stranger(open=open_)


class ProbeAction:
    """Asks one extension point, as some action would, after pods were placed."""

    name: ClassVar[str] = "probe"
    point: ClassVar[str] = ""

    def execute(self, session: Session) -> None:
        if not self.point:
            return
        for asked in session.chains.flat(self.point):
            if self.point == "simulation":
                asked(*question(session, self.point)).why_not(a_task(session))
            else:
                asked(*question(session, self.point))


def a_task(session: Session) -> Any:
    return min(session.cache.tasks.values(), key=lambda task: task.uid)


def question(session: Session, point: str) -> tuple[Any, ...]:
    jobs, tasks = list(session.jobs.values()), list(session.cache.tasks.values())
    sub_jobs = [sub_job for job in jobs for sub_job in job.sub_jobs.values()]
    queues = list(session.queues.values())
    rows = np.arange(len(session.table))
    task = a_task(session)
    all_rows = NodeRows(session.table)
    questions: dict[str, tuple[Any, ...]] = {
        "job_order": (jobs[0], jobs[1]),
        "sub_job_order": (sub_jobs[0], sub_jobs[1]),
        "queue_order": (queues[0], queues[1]),
        "victim_queue_order": (queues[0], queues[1], queues[0]),
        "task_order": (tasks[0], tasks[1]),
        **dict.fromkeys(("pre_predicate", "task_predicate", "is_plain"), (task,)),
        **dict.fromkeys(("class_predicate", "class_score"), (task.class_,)),
        **dict.fromkeys(("row_predicate", "row_score", "row_batch_score"), (task.class_, all_rows)),
        **dict.fromkeys(("node_predicate", "node_score"), (task, "n1")),
        **dict.fromkeys(("task_score", "task_batch_score"), (task, rows)),
        "best_node": (task, {"n1": 1.0, "n2": 2.0}),
        **dict.fromkeys(("preemptable", "reclaimable"), (task, tasks)),
        "unified_evictable": ("gangpreempt", jobs[0], tasks),
        "victim_tasks": (tasks,),
        "overused": (queues[0],),
        "preemptive": (queues[0], tasks),
        "allocatable": (queues[0], task),
        "hyper_node_order": (sub_jobs[0], {"h1": rows}),
        "job_gradient": (jobs[0], "h1", False),
        **dict.fromkeys(("sub_job_ready", "sub_job_pipelined"), (sub_jobs[0],)),
        "sub_job_gradient": (sub_jobs[0], "h1", False),
        "simulation": (task, 0),
    }
    return questions.get(point, (jobs[0],))


def configuration(*actions: str) -> Configuration:
    first, second = DEFAULT_CONFIGURATION.tiers
    return Configuration(actions, ((PluginOptions("stranger"), *first), second))


def engine_with(plugin: type[StrangerPlugin] | None, *actions: str, point: str = "") -> Engine:
    """A gang of three that fits, one that does not, a surplus, and a job that runs already."""
    registry = Registry([plugin] if plugin else [])
    probe = type("Probe", (ProbeAction,), {"point": point})
    registry.actions = {**registry.actions, "probe": probe}
    conf = configuration(*(actions or DEFAULT_CONFIGURATION.actions))
    if plugin is None:
        conf = replace(conf, tiers=(conf.tiers[0][1:], conf.tiers[1]))
    engine = Engine(conf, registry=registry)
    return fill(
        engine,
        *(node(f"n{i}", cpu=4) for i in (1, 2, 3)),
        queue(),
        queue("other"),
        *job("runs", 2, on="n1"),
        *job("fits", 3),
        *job("grows", 3, minimum=1, queue_name="other"),
        *job("wide", 9),
        StorageClass("uid-late", "late", "rancher.io/local-path", wait_for_first_consumer=True),
        PersistentVolumeClaim(
            "uid-claim", "ns", "claim", VolumePhase.PENDING, storage_class_name="late"
        ),
        pod_group("stores"),
        pod("stores-0", "stores", spec={"volumes": (PodVolume("claim"),)}),
    )


def held(amounts: Resources) -> list[tuple[str, float]]:
    return [(name, amount) for name, amount in amounts.items() if amount]


def state_of(engine: Engine) -> dict[str, object]:
    """Everything that a session could have left behind."""
    cache = engine.cache
    return {
        "amounts": cache.table.amounts.tolist(),
        "offered": cache.table.offered.tolist(),
        "on nodes": {n: sorted(e.tasks) for n, e in cache.table.entries.items()},
        "tasks": {
            uid: (t.status, t.node_name, t.counted_status, t.last_transaction, t.eviction_occurred)
            for uid, t in sorted(cache.tasks.items())
        },
        "jobs": {
            id_: (
                j.phase,
                j.status,
                {s: sorted(ts) for s, ts in j.index.by_status.items() if ts},
                held(j.index.allocated),
                dict(j.fit_errors),
            )
            for id_, j in sorted(cache.jobs.items())
        },
        "queues": {q.name: q.allocated for q in cache.queues},
        "volumes": cache.storage.reservations.snapshot(),
        "held": {
            name: (held(total.allocated), held(total.request), held(total.inqueue))
            for name in cache.jobs.totals.queues()
            if (total := cache.jobs.totals.of(name)) is not None
        },
    }


def told(result: SessionResult) -> tuple[object, ...]:
    return (result.decisions, result.statuses, result.events, result.waits)


def assert_left_out(
    plugin: type[StrangerPlugin], where: str, *actions: str, point: str = "", sessions: int = 2
) -> SessionResult:
    """Sessions with the plugin are sessions without it, and each names it once."""
    with_it = engine_with(plugin, *actions, point=point)
    without = engine_with(None, *actions, point=point)
    for second in range(sessions):
        result = with_it.schedule(NOW_NS + second * 10**9)
        assert told(result) == told(without.schedule(NOW_NS + second * 10**9))
        assert [(f.author, f.where) for f in result.faults] == [("stranger", where)]
        assert state_of(with_it) == state_of(without)
    return result
