"""Pods that are told together are taken in as if they were told one by one."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.deltas import Delta, PodsUpserted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import SubGroupPolicy
from pumice.core.model.pod import HostPort, Pod, PodPhase
from tests.core import recount
from tests.core.builders import NOW_NS, amounts, fill, node, pod, pod_group, queue
from tests.core.kubebatch import older

# Names come again, so that a pod may be told twice; some have none.
NAMES = st.sampled_from([*(f"p-{number}" for number in range(12)), ""])
SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"host_ports": (HostPort("TCP", "0.0.0.0", 80),)},
    {"scheduling_gates": ("gate",)},
    {"scheduler_name": "other"},
)


def made(
    name: str, group: str, node_name: str, phase: PodPhase, number: int, role: str, leaving: bool
) -> Pod:
    base = pod(name, group, on=node_name, role=role, terminating=leaving, task_priority=number)
    spec = replace(base.spec, **SPECS[number])
    if role == "absurd":
        spec = replace(spec, requests=amounts(2**60))
    return replace(base, spec=spec, phase=phase, labels={"role": role})


PODS = st.builds(
    made,
    NAMES,
    st.sampled_from(("a", "b", "divided", "", "unknown")),
    st.sampled_from(("", "n1", "n2", "gone")),
    st.sampled_from(PodPhase),
    st.integers(0, len(SPECS) - 1),
    st.sampled_from(("ps", "worker", "absurd")),
    st.booleans(),
)
# Several pods in a row that differ in their names and nodes only.
GANGS = st.builds(
    lambda like, names, nodes: [
        replace(like, uid=f"uid-{name}", name=name, node_name=at)
        for name, at in zip(names, nodes, strict=False)
    ],
    PODS,
    st.lists(NAMES, min_size=1, max_size=5),
    st.lists(st.sampled_from(("n1", "n2", "gone")), min_size=5, max_size=5) | st.just([""] * 5),
)
TOLD = st.lists(st.lists(GANGS, max_size=4).map(lambda gangs: [*chain(*gangs)]), max_size=3)


def filled(engine: Engine) -> Engine:
    policy = SubGroupPolicy("by-role", match_label_keys=("role",))
    groups = (pod_group("a", 2), pod_group("b"), pod_group("divided", sub_group_policies=(policy,)))
    return fill(engine, queue(), node("n1"), node("n2"), *groups)


def told(engine: Engine, deltas: list[Delta]) -> list[Any]:
    refused = engine.apply(deltas)
    return [(r.delta, str(r.error)) for r in refused]


def seen(engine: Engine) -> Any:
    cache = engine.cache
    tasks = {
        uid: (task.pod, task.status, task.node_name, task.job_id, task.counted_status)
        for uid, task in cache.tasks.items()
    }
    jobs = {
        id_: {sub.id: (sub.priority, sorted(sub.index.tasks)) for sub in job.sub_jobs.values()}
        for id_, job in cache.jobs.items()
    }
    amounts_by_node = cache.table.amounts.tolist()
    return tasks, jobs, cache.foreign, amounts_by_node, cache.placement_changes, cache.version


def compare(
    batches: list[list[Pod]], make: Callable[[], Engine], check: Callable[[Any], None]
) -> None:
    together, apart = filled(make()), filled(make())
    for number, pods in enumerate(batches):
        refused = told(together, [PodsUpserted(pods)])
        assert refused == told(apart, [Upserted(one) for one in pods])
        assert seen(together) == seen(apart)
        results = [engine.schedule(NOW_NS + number) for engine in (together, apart)]
        assert str(results[0]) == str(results[1])
        assert seen(together) == seen(apart)
        check(together.cache)


@given(TOLD)
@settings(max_examples=150, deadline=None)
def test_together_is_one_by_one(batches: list[list[Pod]]) -> None:
    compare(batches, Engine, recount.check)


@given(TOLD)
@settings(max_examples=50, deadline=None)
def test_together_is_one_by_one_in_the_older_world(batches: list[list[Pod]]) -> None:
    compare(batches, older.engine, lambda _: None)
