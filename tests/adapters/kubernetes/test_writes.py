"""Binds, evictions and statuses, and every answer they can get."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pumice.adapters.runtime.world import ApplyCode, ReadError
from pumice.v1 import condition_pb2, group_pb2, status_pb2
from pumice.v1.decision_pb2 import Evict
from pumice.v1.object_pb2 import KIND_QUEUE
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import (
    PODGROUPS,
    QUEUES,
    group,
    order,
    pod,
    put_pod,
    queue,
)

Watched = Callable[..., Cluster]


# Binds.


async def test_a_bind_posts_uid_and_annotations(fake_api: FakeApi, watched: Watched) -> None:
    uid = put_pod(fake_api)
    world = watched().world
    result = await world.binder.bind(order(uid, annotations={"volcano.sh/x": "y"}))
    assert result.code is ApplyCode.DONE
    bound = fake_api.get("pods", "ns", "p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"]["volcano.sh/x"] == "y"


async def test_what_a_bind_finds(fake_api: FakeApi, watched: Watched) -> None:
    world = watched().world
    assert (await world.binder.bind(order("u"))).code is ApplyCode.NOT_FOUND
    uid = put_pod(fake_api)
    assert (await world.binder.bind(order("other"))).code is ApplyCode.OTHER_UID
    fake_api.put("pods", pod("p", deletionTimestamp="2026-11-01T00:00:00Z"))
    assert (await world.binder.bind(order(uid))).code is ApplyCode.NOT_FOUND
    fake_api.put("pods", pod("p", node="n9"))
    result = await world.binder.bind(order(uid))
    assert (result.code, result.node) == (ApplyCode.PLACED, "n9")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ApplyCode.INVALID),
        (403, ApplyCode.FORBIDDEN),
        (409, ApplyCode.CONFLICT),
        (422, ApplyCode.INVALID),
        (429, ApplyCode.THROTTLED),
        (500, ApplyCode.SERVER_ERROR),
        (503, ApplyCode.SERVER_ERROR),
        (504, ApplyCode.TIMED_OUT),
    ],
)
async def test_every_refusal_has_a_meaning(
    fake_api: FakeApi, watched: Watched, status: int, code: ApplyCode
) -> None:
    uid = put_pod(fake_api)
    headers = {"Retry-After": "3"}
    fake_api.trouble.append(Trouble("POST", "/binding", status=status, headers=headers))
    result = await watched().world.binder.bind(order(uid))
    assert result.code is code
    if code is ApplyCode.THROTTLED:
        assert result.retry_after_seconds == 3


async def test_a_bind_whose_answer_is_lost_shows_when_the_pod_is_read(
    fake_api: FakeApi, watched: Watched
) -> None:
    uid = put_pod(fake_api)
    fake_api.trouble.append(Trouble("POST", "/binding", loses_answer=True))
    world = watched().world
    assert (await world.binder.bind(order(uid))).code is ApplyCode.TIMED_OUT
    reading = await world.read_pod("ns", "p")
    assert reading.object is not None
    assert reading.object.pod.node_name == "n1"
    # And when it is tried again all the same.
    assert (await world.binder.bind(order(uid))).code is ApplyCode.PLACED


async def test_reading(fake_api: FakeApi, watched: Watched) -> None:
    world = watched().world
    assert (await world.read_pod("ns", "none")).object is None
    made = fake_api.put(QUEUES, queue("q"))
    reading = await world.read_object(KIND_QUEUE, "", "q")
    assert reading.version == made["metadata"]["resourceVersion"]
    fake_api.trouble.append(Trouble("GET", "/queues/q"))
    with pytest.raises(ReadError):
        await world.read_object(KIND_QUEUE, "", "q")


# Evictions.


async def test_an_eviction_says_why_and_then_deletes(fake_api: FakeApi, watched: Watched) -> None:
    uid = put_pod(fake_api, node="n1")
    evict = Evict(namespace="ns", name="p", uid=uid, reason="preempt", for_job="ns/high")
    assert (await watched().world.evictor.evict(evict)).code is ApplyCode.DONE
    held = fake_api.get("pods", "ns", "p")
    assert held["metadata"]["deletionTimestamp"]
    conditions = {c["type"]: c for c in held["status"]["conditions"]}
    assert conditions["Ready"]["reason"] == "Evict"
    assert conditions["Ready"]["status"] == "False"
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    assert "volcano" in conditions["DisruptionTarget"]["message"]
    assert "ns/high" in conditions["DisruptionTarget"]["message"]


async def test_what_an_eviction_finds(fake_api: FakeApi, watched: Watched) -> None:
    world = watched().world
    evict = Evict(namespace="ns", name="p", uid="u")
    assert (await world.evictor.evict(evict)).code is ApplyCode.NOT_FOUND
    put_pod(fake_api, node="n1")
    assert (await world.evictor.evict(evict)).code is ApplyCode.OTHER_UID
    assert "deletionTimestamp" not in fake_api.get("pods", "ns", "p")["metadata"]
    fake_api.trouble.append(Trouble("DELETE", "/pods/p", status=409, message="ResourceVersion"))
    evict.uid = fake_api.get("pods", "ns", "p")["metadata"]["uid"]
    assert (await world.evictor.evict(evict)).code is ApplyCode.CONFLICT
    assert (await world.evictor.evict(evict)).code is ApplyCode.DONE


@pytest.mark.parametrize("name", ["druid-0", "fluid-worker", "uid"])
async def test_a_conflict_on_a_pod_with_uid_in_its_name_is_a_conflict(
    fake_api: FakeApi, watched: Watched, name: str
) -> None:
    uid = fake_api.put("pods", pod(name, node="n1"))["metadata"]["uid"]
    message = f'Operation cannot be fulfilled on Pod "{name}": the object has been modified'
    fake_api.trouble.append(Trouble("DELETE", f"/pods/{name}", status=409, message=message))
    fake_api.trouble.append(Trouble("PATCH", f"/pods/{name}/status", status=422, message=message))
    evict = Evict(namespace="ns", name=name, uid=uid)
    evictor = watched().world.evictor
    assert (await evictor.evict(evict)).code is ApplyCode.INVALID
    assert (await evictor.evict(evict)).code is ApplyCode.CONFLICT
    assert (await evictor.evict(evict)).code is ApplyCode.DONE


async def test_a_pod_that_goes_while_its_eviction_conflicts_is_gone(
    fake_api: FakeApi, watched: Watched
) -> None:
    uid = put_pod(fake_api, node="n1")
    fake_api.trouble.append(Trouble("PATCH", "/pods/p/status", status=409))
    fake_api.trouble.append(Trouble("GET", "/pods/p$", status=404))
    evict = Evict(namespace="ns", name="p", uid=uid)
    assert (await watched().world.evictor.evict(evict)).code is ApplyCode.NOT_FOUND


# Statuses.


def group_change(uid: str) -> status_pb2.StatusChange:
    status = group_pb2.PodGroupStatus(
        phase=group_pb2.POD_GROUP_PHASE_RUNNING,
        running=2,
        conditions=[
            group_pb2.PodGroupCondition(
                type="Scheduled",
                status=condition_pb2.CONDITION_STATUS_TRUE,
                transition_time=Timestamp(seconds=1_700_000_000),
            )
        ],
    )
    return status_pb2.StatusChange(
        pod_group=status_pb2.PodGroupStatusChange(namespace="ns", name="g", uid=uid, status=status)
    )


@pytest.mark.parametrize("apart", [False, True])
async def test_a_pod_group_is_written_with_and_without_a_status_of_its_own(
    fake_api: FakeApi, watched: Watched, apart: bool
) -> None:
    if apart:
        fake_api.with_status.add(PODGROUPS)
    body = group("g")
    body["status"] = {"phase": "Inqueue", "failed": 3}
    uid = fake_api.put(PODGROUPS, body)["metadata"]["uid"]
    updater = watched().world.status_updater
    assert (await updater.write_status(group_change(uid))).code is ApplyCode.DONE
    status = fake_api.get(PODGROUPS, "ns", "g")["status"]
    assert status["phase"] == "Running"
    assert status["running"] == 2
    assert "failed" not in status
    assert status["conditions"][0]["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert bool(fake_api.made("PATCH", "/podgroups/g/status")) == apart
    assert (await updater.write_status(group_change("x"))).code is ApplyCode.OTHER_UID


def condition(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "status": "True", **fields}


async def test_conditions_of_others_stay_with_fields_that_nobody_here_knows(
    fake_api: FakeApi, watched: Watched
) -> None:
    body = group("g")
    theirs = condition("Audited", observedGeneration=7, newerField={"x": 1})
    body["status"] = {"phase": "Pending", "conditions": [theirs, condition("Scheduled", old=1)]}
    uid = fake_api.put(PODGROUPS, body)["metadata"]["uid"]
    cluster = watched()
    await until(lambda: cluster.synced)
    assert (await cluster.world.status_updater.write_status(group_change(uid))).code is (
        ApplyCode.DONE
    )
    held = fake_api.get(PODGROUPS, "ns", "g")["status"]["conditions"]
    assert held[0] == theirs
    assert [c["type"] for c in held] == ["Audited", "Scheduled"]
    assert "old" not in held[1]
    # The watch had told the version, so nothing was read.
    assert not fake_api.made("GET", "/podgroups/g$")


@pytest.mark.parametrize("apart", [False, True])
async def test_a_condition_that_comes_while_a_status_is_written_is_not_lost(
    fake_api: FakeApi, watched: Watched, apart: bool
) -> None:
    if apart:
        fake_api.with_status.add(PODGROUPS)
    uid = fake_api.put(PODGROUPS, group("g"))["metadata"]["uid"]
    cluster = watched()
    await until(lambda: cluster.synced)
    patch = fake_api._patch

    def write_first(*given: Any) -> Any:
        # Somebody else is faster, and the watch has not shown it.
        fake_api._patch = patch  # type: ignore[method-assign]
        body = dict(fake_api.get(PODGROUPS, "ns", "g"))
        body["status"] = {"conditions": [condition("Audited")]}
        fake_api.put(PODGROUPS, body)
        return patch(given[0], fake_api.get(PODGROUPS, "ns", "g"), *given[2:])

    fake_api._patch = write_first  # type: ignore[assignment, method-assign]
    assert (await cluster.world.status_updater.write_status(group_change(uid))).code is (
        ApplyCode.DONE
    )
    held = fake_api.get(PODGROUPS, "ns", "g")["status"]
    assert [c["type"] for c in held["conditions"]] == ["Audited", "Scheduled"]
    assert held["phase"] == "Running"


async def test_statuses_written_one_after_the_other_read_nothing(
    fake_api: FakeApi, watched: Watched
) -> None:
    uid = fake_api.put(PODGROUPS, group("g"))["metadata"]["uid"]
    cluster = watched()
    await until(lambda: cluster.synced)
    change = group_change(uid)
    for count in range(1, 6):
        change.pod_group.status.running = count
        assert (await cluster.world.status_updater.write_status(change)).code is ApplyCode.DONE
    assert not fake_api.made("GET", "/podgroups/g$")


async def test_a_definition_that_is_replaced_is_noticed(
    fake_api: FakeApi, watched: Watched
) -> None:
    uid = fake_api.put(PODGROUPS, group("g"))["metadata"]["uid"]
    updater = watched().world.status_updater
    assert (await updater.write_status(group_change(uid))).code is ApplyCode.DONE
    fake_api.with_status.add(PODGROUPS)
    fake_api.get(PODGROUPS, "ns", "g").pop("status")
    assert (await updater.write_status(group_change(uid))).code is ApplyCode.CONFLICT
    assert (await updater.write_status(group_change(uid))).code is ApplyCode.DONE


async def test_a_pod_group_of_kube_batch_is_written_where_it_is(
    fake_api: FakeApi, watched: Watched
) -> None:
    old = "podgroups.scheduling.sigs.dev"
    fake_api.resources.add(old)
    uid = fake_api.put(old, group("g"))["metadata"]["uid"]
    cluster = watched()
    await until(lambda: cluster.synced)
    updater = cluster.world.status_updater
    assert (await updater.write_status(group_change(uid))).code is ApplyCode.DONE
    assert fake_api.get(old, "ns", "g")["status"]["phase"] == "Running"


async def test_what_a_queue_holds_replaces_what_it_held(
    fake_api: FakeApi, watched: Watched
) -> None:
    uid = fake_api.put(QUEUES, queue("q"))["metadata"]["uid"]
    updater = watched().world.status_updater

    def change(**allocated: int) -> status_pb2.StatusChange:
        return status_pb2.StatusChange(
            queue=status_pb2.QueueStatusChange(name="q", uid=uid, allocated=allocated)
        )

    gpu = {"nvidia.com/gpu": 1500}
    written = change(cpu=2000, memory=1024, **gpu)
    assert (await updater.write_status(written)).code is ApplyCode.DONE
    allocated = fake_api.get(QUEUES, "", "q")["status"]["allocated"]
    assert allocated == {"cpu": "2", "memory": "1024", "nvidia.com/gpu": "1500m"}
    assert (await updater.write_status(change(cpu=100))).code is ApplyCode.DONE
    assert fake_api.get(QUEUES, "", "q")["status"]["allocated"] == {"cpu": "100m"}


async def test_a_queue_whose_definition_changes_keeps_its_allocation(
    fake_api: FakeApi, watched: Watched
) -> None:
    uid = fake_api.put(QUEUES, queue("q"))["metadata"]["uid"]
    updater = watched().world.status_updater

    async def write(cpu: int) -> ApplyCode:
        change = status_pb2.QueueStatusChange(name="q", uid=uid, allocated={"cpu": cpu})
        return (await updater.write_status(status_pb2.StatusChange(queue=change))).code

    assert await write(1000) is ApplyCode.DONE
    fake_api.with_status.discard(QUEUES)
    # The status writer tries again, because the queue exists.
    assert await write(2000) is ApplyCode.NOT_FOUND
    assert await write(2000) is ApplyCode.DONE
    assert fake_api.get(QUEUES, "", "q")["status"]["allocated"] == {"cpu": "2"}
    fake_api.with_status.add(QUEUES)
    assert await write(3000) is ApplyCode.CONFLICT
    assert await write(3000) is ApplyCode.DONE
    assert fake_api.get(QUEUES, "", "q")["status"]["allocated"] == {"cpu": "3"}


async def test_a_pod_that_waits_is_told_why_and_where(fake_api: FakeApi, watched: Watched) -> None:
    uid = put_pod(fake_api)
    change = status_pb2.PodConditionChange(
        namespace="ns",
        name="p",
        uid=uid,
        reason="Unschedulable",
        message="0/1 nodes",
        nominated_node_name="n3",
    )
    updater = watched().world.status_updater
    result = await updater.write_status(status_pb2.StatusChange(pod=change))
    assert result.code is ApplyCode.DONE
    status = fake_api.get("pods", "ns", "p")["status"]
    assert status["nominatedNodeName"] == "n3"
    assert status["conditions"][0]["message"] == "0/1 nodes"


async def test_a_gate_is_lifted_and_others_stay(fake_api: FakeApi, watched: Watched) -> None:
    body = pod("p")
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    body["spec"]["schedulingGates"] = [{"name": gate}, {"name": "example.com/other"}]
    uid = fake_api.put("pods", body)["metadata"]["uid"]
    updater = watched().world.status_updater
    lift = status_pb2.PodGateLift(namespace="ns", name="p", uid=uid, gate=gate)
    change = status_pb2.StatusChange(pod_gate=lift)
    assert (await updater.write_status(change)).code is ApplyCode.DONE
    assert fake_api.get("pods", "ns", "p")["spec"]["schedulingGates"] == [
        {"name": "example.com/other"}
    ]
    change.pod_gate.uid = "other"
    assert (await updater.write_status(change)).code is ApplyCode.OTHER_UID


async def test_the_nodes_of_a_shard_are_written(fake_api: FakeApi, watched: Watched) -> None:
    shards = "nodeshards.shard.volcano.sh"
    fake_api.with_status.add(shards)
    body = {"metadata": {"name": "gpu"}, "spec": {"nodesDesired": ["n1", "n2"]}}
    uid = fake_api.put(shards, body)["metadata"]["uid"]
    status = status_pb2.NodeShardStatusChange(
        name="gpu", uid=uid, nodes_in_use=["n1", "n3"], nodes_to_add=["n2"], nodes_to_remove=["n3"]
    )
    change = status_pb2.StatusChange(node_shard=status)
    assert (await watched().world.status_updater.write_status(change)).code is ApplyCode.DONE
    written = fake_api.get(shards, "", "gpu")["status"]
    assert written.pop("lastUpdateTime")
    assert written == {
        "nodesInUse": ["n1", "n3"],
        "nodesToAdd": ["n2"],
        "nodesToRemove": ["n3"],
    }
