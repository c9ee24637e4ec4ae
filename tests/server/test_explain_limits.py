"""A queue that is full says of what: which resource of which queue, how much is asked, used, allowed."""

from typing import Any

import pytest

from pumice.v1 import explanation_pb2, group_pb2, object_pb2, pod_pb2, reason_pb2, resource_pb2
from tests.server.running import GIB, RunningCore, configuration, gang, group, node, pod, queue
from tests.server.test_explain import explain
from tests.server.trials import live, schedule

PROPORTION = configuration(
    'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: proportion\n'
)
CAPACITY = configuration(
    'actions: "enqueue, allocate, reclaim"\n'
    "tiers:\n- plugins:\n  - name: gang\n  - name: conformance\n"
    "- plugins:\n  - name: capacity\n    enableHierarchy: true\n"
)
INQUEUE = group_pb2.PodGroupStatus(phase=group_pb2.POD_GROUP_PHASE_INQUEUE)
RUNNING: dict[str, Any] = {"node_name": "n1", "phase": pod_pb2.POD_PHASE_RUNNING}


def amounts(cpu: int, memory: int = 0) -> resource_pb2.ResourceList:
    held = {"cpu": cpu} | ({"memory": memory} if memory else {})
    return resource_pb2.ResourceList(amounts=held)


def limits_of(found: explanation_pb2.Explanation) -> list[tuple[Any, ...]]:
    return [
        (limit.queue, limit.resource, limit.asked, limit.used, limit.allowed)
        for stage in found.stages
        for reason in stage.reasons
        for limit in reason.limits
        if reason.code == reason_pb2.REASON_CODE_QUEUE_QUOTA
    ]


def small(cpu: int = 2000, memory: int = 0, name: str = "small", **fields: Any) -> Any:
    return queue(name, weight=1, capability=amounts(cpu, memory), **fields)


def asking(name: str, cpu: int, memory: int = 0, **fields: Any) -> object_pb2.ClusterObject:
    fields.setdefault("queue", "small")
    return group(name, 1, min_resources=amounts(cpu, memory), **fields)


async def test_a_job_that_is_not_let_in_names_the_limit(core: RunningCore) -> None:
    started = group_pb2.PodGroupStatus(phase=group_pb2.POD_GROUP_PHASE_RUNNING)
    held = [asking("first", 1000, status=started), pod("first", 0, **RUNNING)]
    objects = [small(), node("n1", 8000), *held, asking("job", 1500), pod("job", 0, 1500)]
    await core.served(objects, PROPORTION)
    await core.session(1)
    found = await explain(core, job="job")
    assert limits_of(found) == [("small", "cpu", 1500, 1000, 2000)]
    told = (
        "queue small may have 2 cpu, of which 1 cpu is taken or promised, and it asks for 1.5 cpu"
    )
    assert told in found.sentence
    by_pod = await explain(core, pod_="job-0")
    assert limits_of(by_pod) == limits_of(found)
    assert told in by_pod.sentence


async def test_a_job_without_pods_names_it_too_and_all_resources(core: RunningCore) -> None:
    waits = asking("job", 3000, 8 * GIB)
    await core.served([small(2000, 4 * GIB), node("n1", 8000), waits], PROPORTION)
    await core.session(1)
    found = await explain(core, job="job")
    assert limits_of(found) == [
        ("small", "cpu", 3000, 0, 2000),
        ("small", "memory", 8 * GIB, 0, 4 * GIB),
    ]
    assert "asks for 3 cpu and 8 GiB memory" in found.sentence


async def test_the_pod_of_a_gang_that_is_too_much_counts_those_ahead(core: RunningCore) -> None:
    let_in = [group("job", 3, queue="small", status=INQUEUE), *gang("job", 3)[1:]]
    await core.served([small(), node("n1", 8000), *let_in], PROPORTION)
    await core.session(1)
    found = await explain(core, job="job")
    assert limits_of(found) == [("small", "cpu", 1000, 2000, 2000)]
    assert "queue small may have 2 cpu, of which 2 cpu is taken, and job-2 asks for 1 cpu" in (
        found.sentence
    )
    # The follower, which runs no session itself, knows it as well.
    await schedule(core, live("r"))
    assert limits_of(await explain(core, job="job")) == limits_of(found)


@pytest.mark.parametrize("letting_in", [False, True])
async def test_the_limit_may_be_that_of_a_queue_above(core: RunningCore, letting_in: bool) -> None:
    queues = [
        queue("root"),
        small(2000, name="team", parent="root"),
        *(small(2000, name=name, parent="team") for name in ("leaf", "other")),
    ]
    beside = [group("beside", 1, queue="other", status=INQUEUE), pod("beside", 0, **RUNNING)]
    status = group_pb2.PodGroupStatus() if letting_in else INQUEUE
    waits = asking("job", 1500, queue="leaf", status=status)
    objects = [*queues, node("n1", 8000), *beside, waits, pod("job", 0, 1500)]
    await core.served(objects, CAPACITY)
    await core.session(1)
    found = await explain(core, job="job")
    assert set(limits_of(found)) == {("team", "cpu", 1500, 1000, 2000)}
    assert "queue team may have 2 cpu, of which 1 cpu is taken" in found.sentence


async def test_a_limit_that_is_no_longer_in_the_way_is_not_named(core: RunningCore) -> None:
    adapter = await core.served(
        [small(), node("n1", 8000), asking("job", 3000), pod("job", 0, 3000)], PROPORTION
    )
    await core.session(1)
    await adapter.tell(small(4000))
    found = await explain(core, job="job")
    assert limits_of(found) == []
    assert "it is above what its queue may have (cpu)" in found.sentence
