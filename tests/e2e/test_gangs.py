"""Gangs, queues and evictions on a real API server."""

from __future__ import annotations

from tests.e2e.cluster import Cluster, assert_fits


async def test_a_gang_is_placed_whole(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(3)
    await cluster.add_gang("train", 10)
    cluster.run_scheduler()
    placed = await cluster.until_placed({"train": 10})
    assert_fits(placed, 4, nodes)
    await cluster.until_phase("train", "Running")

    async def counts() -> bool:
        status = (await cluster.group("train"))["status"]
        return bool(status.get("running") == 10)

    await cluster.until("ten pods are counted as running", counts)
    await cluster.until_event("Scheduled", name="train-0")


async def test_a_gang_that_does_not_fit_waits_and_says_why(cluster: Cluster) -> None:
    await cluster.add_nodes(2)
    await cluster.add_gang("large", 9)
    await cluster.add_gang("small", 2)
    cluster.run_scheduler()
    await cluster.until_placed({"small": 2})

    await cluster.until_waiting("large")
    (condition,) = (await cluster.group("large"))["status"]["conditions"]
    assert condition["reason"] == "NotEnoughResources"
    assert "tasks in gang unschedulable: pod group is not ready" in condition["message"]

    async def is_announced() -> bool:
        of_group = await cluster.events(name="large", kind="PodGroup")
        of_pod = await cluster.events(name="large-0", kind="Pod")
        return "Unschedulable" in {event["reason"] for event in of_group} and bool(of_pod)

    await cluster.until("events say so too", is_announced)

    async def is_told() -> bool:
        (pod,) = [pod for pod in await cluster.pods() if pod["metadata"]["name"] == "large-0"]
        conditions = pod["status"].get("conditions", [])
        told = [one for one in conditions if one["type"] == "PodScheduled"]
        return any(one["status"] == "False" and one["message"] for one in told)

    await cluster.until("the condition of the pod says so too", is_told)
    assert not await cluster.placed("large")

    # It is placed as soon as there is room.
    await cluster.add_nodes(1, prefix="new")
    await cluster.until_placed({"small": 2, "large": 9})


PREEMPT = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
RECLAIM = PREEMPT.replace("preempt", "reclaim")


async def test_preemption_evicts_and_then_places(cluster: Cluster) -> None:
    await cluster.add_priority_class("low", 1)
    await cluster.add_priority_class("high", 1000)
    await cluster.add_nodes(2)
    await cluster.add_gang("idle", 8, minimum=1, priority="low")
    cluster.run_scheduler(cluster.configuration(PREEMPT))
    await cluster.until_placed({"idle": 8})
    await cluster.add_gang("urgent", 3, priority="high")
    await cluster.until_placed({"urgent": 3, "idle": 5})

    async def are_announced() -> bool:
        found = [one for one in await cluster.events(kind="Pod") if one["reason"] == "Evict"]
        return len({one["involvedObject"]["name"] for one in found}) == 3

    await cluster.until("events on three pods say so", are_announced)
    await cluster.until_event("Evict", kind="PodGroup", name="idle")


async def test_a_queue_gets_back_what_is_its_own(cluster: Cluster) -> None:
    await cluster.add_queue("red")
    await cluster.add_queue("blue")
    await cluster.add_nodes(2)
    await cluster.add_gang("greedy", 8, queue="red", minimum=1)
    cluster.run_scheduler(cluster.configuration(RECLAIM))
    await cluster.until_placed({"greedy": 8})
    await cluster.add_gang("late", 3, queue="blue")
    await cluster.until_placed({"late": 3, "greedy": 5})


async def test_two_queues_share_by_weight(cluster: Cluster) -> None:
    await cluster.add_queue("red", weight=3)
    await cluster.add_queue("blue", weight=1)
    await cluster.add_nodes(2)
    for number in range(8):
        await cluster.add_gang(f"red-{number}", 1, queue="red")
        await cluster.add_gang(f"blue-{number}", 1, queue="blue")
    cluster.run_scheduler()

    async def is_full() -> bool:
        return len(await cluster.placed()) == 8

    await cluster.until("the cluster is full", is_full)
    jobs = [name.partition("-")[0] for name in await cluster.placed()]
    assert (jobs.count("red"), jobs.count("blue")) == (6, 2)

    async def is_counted() -> bool:
        found = await cluster.client.get("/apis/scheduling.volcano.sh/v1beta1/queues/red")
        return bool(found["status"].get("allocated", {}).get("cpu") == "6")

    await cluster.until("the queue's status says what it has", is_counted)
