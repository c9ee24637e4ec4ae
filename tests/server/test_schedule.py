"""Schedule: the core as a pure function, and what would be decided on a live cluster."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from pumice.client.details import StatusDetails, read_status_details
from pumice.server.limits import Limits
from pumice.v1 import (
    decision_pb2,
    group_pb2,
    object_pb2,
    pod_pb2,
)
from pumice.v1.inspection_service_pb2 import ListJobsRequest
from pumice.v1.scheduling_service_pb2 import (
    ScheduleRequest,
)
from tests.server.running import (
    RunningCore,
    configuration,
    gang,
    group,
    node,
    outcome,
    pod,
    queue,
    running_core,
)
from tests.server.trials import binds, inline, live, schedule

Code = grpc.StatusCode


async def refused(core: RunningCore, request: Any) -> tuple[Code, StatusDetails]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await schedule(core, request)
    detail = read_status_details(caught.value.trailing_metadata())
    return caught.value.code(), detail


async def test_inline_objects_are_placed_without_any_cluster(core: RunningCore) -> None:
    response = await schedule(core, inline("r1", queue(), node("n1"), *gang("job", 2)))
    assert binds(response) == {"job-0": "n1", "job-1": "n1"}
    assert response.request_id == "r1"
    assert response.based_on_seq == 0
    assert [gang.job for gang in response.gangs] == ["team/job"]
    assert [s.bind_count for s in response.sessions] == [2]


async def test_what_stays_pending_comes_with_its_reasons(core: RunningCore) -> None:
    response = await schedule(core, inline("r1", queue(), node("n1"), *gang("job", 5)))
    assert not response.decisions
    (wait,) = response.waits
    assert wait.job == "team/job"
    assert {reason.task for reason in wait.reasons} >= {"job-4"}


async def test_shares_of_queues_are_told_before_and_after(core: RunningCore) -> None:
    response = await schedule(core, inline("r1", queue(), node("n1"), *gang("job", 2)))
    before = {share.name: share for share in response.queues_before}["default"]
    after = {share.name: share for share in response.queues_after}["default"]
    assert before.allocated.get("cpu", 0) == 0
    assert after.allocated["cpu"] == 2000
    assert before.requested["cpu"] == 2000


async def test_an_object_without_a_uid_gets_its_name(core: RunningCore) -> None:
    items = [queue(), node("n1"), *gang("job", 1)]
    for item in items:
        getattr(item, item.WhichOneof("object") or "").uid = ""
    response = await schedule(core, inline("r1", *items))
    assert [d.bind.uid for d in response.decisions] == ["team/job-0"]


async def test_several_sessions_run_until_one_decides_nothing(core: RunningCore) -> None:
    items = [queue(), node("n1"), *gang("one", 4), *gang("two", 4)]
    response = await schedule(core, inline("r1", *items, max_sessions=5))
    assert len(binds(response)) == 4
    assert 1 < len(response.sessions) < 5


async def test_decisions_alone_come_without_statuses_and_shares(core: RunningCore) -> None:
    items = [queue(), node("n1"), *gang("job", 1)]
    response = await schedule(core, inline("r1", *items, decisions_only=True))
    assert response.decisions
    assert not response.statuses
    assert not response.queues_after


async def test_a_live_cluster_is_asked_and_stays_as_it_is(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 2)])
    assert len(await adapter.decisions()) == 2
    response = await schedule(core, live("r1", *gang("what-if", 2)))
    assert binds(response) == {"what-if-0": "n1", "what-if-1": "n1"}
    assert response.based_on_seq == adapter.seq
    again = await schedule(core, live("r2", *gang("what-if", 3)))
    assert not again.decisions, "the live job holds two of four, and was only assumed so far"
    jobs = await core.inspection().ListJobs(ListJobsRequest())
    assert [job.name for job in jobs.jobs] == ["job"]


async def test_the_follower_keeps_up_with_the_stream(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1")])
    first = await schedule(core, live("r1", *gang("what-if", 6)))
    assert not first.decisions
    await adapter.tell(node("n2"))
    second = await schedule(core, live("r2", *gang("what-if", 6)))
    assert len(binds(second)) == 6
    assert second.based_on_seq == first.based_on_seq + 1


async def test_the_follower_knows_live_decisions_and_their_failures(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1")])
    assert len(binds(await schedule(core, live("r1", *gang("what-if", 4))))) == 4
    await adapter.tell(*gang("job", 3))
    core.clock.advance(1)
    batch = await adapter.next("decision_batch")
    decisions = batch.decisions
    assert len(decisions) == 3
    # The adapter hears of a session first, then everybody else.
    await core.session(batch.session)
    assert not (await schedule(core, live("r2", *gang("what-if", 4)))).decisions
    failed = decision_pb2.OUTCOME_CODE_FAILED
    await adapter.tell(*(outcome(decision.id, failed) for decision in decisions))
    gone = [object_pb2.ObjectRef(kind=object_pb2.KIND_POD_GROUP, uid="group-job")]
    free = await schedule(core, live("r3", *gang("what-if", 4), removed=gone))
    assert len(binds(free)) == 4


async def test_a_new_snapshot_gets_a_new_follower(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1")])
    await schedule(core, live("r1", *gang("what-if", 1)))
    await adapter.close()
    await core.served([queue(), node("other")], incarnation="i2", epoch=2)
    response = await schedule(core, live("r2", *gang("what-if", 1)))
    assert binds(response) == {"what-if-0": "other"}


async def test_another_configuration_can_be_tried(core: RunningCore) -> None:
    await core.served([queue(), node("n1")])
    conf = configuration('actions: "enqueue"\ntiers: []\n').configuration
    response = await schedule(core, live("r1", *gang("what-if", 1), configuration=conf))
    assert not response.decisions
    unchanged = await schedule(core, live("r2", *gang("what-if", 1)))
    assert unchanged.decisions
    assert response.config_hash != unchanged.config_hash


async def test_a_hypothetical_object_replaces_its_namesake(core: RunningCore) -> None:
    await core.served([queue(), node("n1", cpu=1000)])
    larger = node("n1", cpu=8000)
    larger.node.uid = ""
    response = await schedule(core, live("r1", larger, *gang("what-if", 8)))
    assert len(binds(response)) == 8


async def test_an_equal_request_id_gets_the_same_answer(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1")])
    first = await schedule(core, live("same", *gang("what-if", 1)))
    await adapter.tell(node("n0"))
    again = await schedule(core, live("same", *gang("what-if", 1)))
    assert again == first
    other = await schedule(core, live("other", *gang("what-if", 1)))
    assert other.based_on_seq == first.based_on_seq + 1


async def test_a_request_id_with_other_content_is_refused(core: RunningCore) -> None:
    await schedule(core, inline("same", queue(), node("n1")))
    code, detail = await refused(core, inline("same", queue(), node("n2")))
    assert (code, detail.reason) == (Code.ALREADY_EXISTS, "REQUEST_ID_REUSED")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (ScheduleRequest(request_id="r"), "INVALID_FIELD"),
        (inline(""), "INVALID_FIELD"),
        (inline("x" * 201), "INVALID_FIELD"),
        (inline("r", max_sessions=-1), "INVALID_FIELD"),
        (inline("r", max_sessions=1001), "INVALID_FIELD"),
        (inline("r", timeout=Duration(seconds=-1)), "INVALID_FIELD"),
        (inline("r", node("n1", cpu=-5)), "OBJECTS_REJECTED"),
        (inline("r", node("n1", cpu=2**62)), "OBJECTS_REJECTED"),
        (
            inline("r", configuration=configuration("actions: nonsense").configuration),
            "CONFIGURATION_REJECTED",
        ),
    ],
)
async def test_what_cannot_be_used_is_named(
    core: RunningCore, request_: ScheduleRequest, reason: str
) -> None:
    code, detail = await refused(core, request_)
    assert (code, detail.reason) == (Code.INVALID_ARGUMENT, reason)
    if reason == "OBJECTS_REJECTED":
        assert [bad.key for bad in detail.rejected] == ["n1"]
    if reason == "CONFIGURATION_REJECTED":
        assert detail.problems[0].problem


async def test_an_unknown_cluster_is_answered_with_near_names(core: RunningCore) -> None:
    await core.served([queue()], cluster="prod-east")
    code, detail = await refused(core, live("r", cluster="prod-esat"))
    assert (code, list(detail.nearest_names)) == (Code.NOT_FOUND, ["prod-east"])


async def test_a_cluster_that_is_not_complete_is_unavailable(core: RunningCore) -> None:
    await core.adapter().connect()
    code, detail = await refused(core, live("r"))
    assert (code, detail.reason) == (Code.UNAVAILABLE, "CLUSTER_NOT_READY")


async def test_a_request_may_be_larger_than_messages_of_a_stream(core: RunningCore) -> None:
    heavy = gang("job", 6)
    for held in heavy[1:]:
        held.pod.annotations["a"] = "x" * 1024 * 1024
    response = await schedule(core, inline("r1", queue(), node("n1", 9000), *heavy))
    assert len(binds(response)) == 6


async def test_too_many_objects_are_refused_with_the_limit(socket_folder: Any) -> None:
    async with running_core(socket_folder, Limits(trial_objects=2)) as core:
        code, detail = await refused(core, inline("r", queue(), node("n1"), node("n2")))
        assert (code, detail.limit, detail.given) == (Code.RESOURCE_EXHAUSTED, 2, 3)


async def test_a_request_that_takes_too_long_is_ended(socket_folder: Any) -> None:
    async with running_core(socket_folder, Limits(trial_timeout_ns=1)) as core:
        code, detail = await refused(core, inline("r", queue(), node("n1"), *gang("job", 1)))
        assert (code, detail.reason) == (Code.DEADLINE_EXCEEDED, "TIME_LIMIT_EXCEEDED")


async def test_too_many_requests_at_once_are_refused(socket_folder: Any) -> None:
    limits = Limits(trials_at_once=1, trials_waiting=0)
    async with running_core(socket_folder, limits) as core:
        items = [queue(), *(node(f"n{i}") for i in range(200)), *gang("job", 500)]
        calls = [schedule(core, inline(f"r{i}", *items)) for i in range(4)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        codes = [r.code() for r in results if isinstance(r, grpc.aio.AioRpcError)]
        assert codes == [Code.RESOURCE_EXHAUSTED] * 3
        # And the one after them finds everything free.
        assert binds(await schedule(core, inline("last", *items)))


async def test_many_at_once_get_each_their_own_answer(core: RunningCore) -> None:
    await core.served([queue(), node("n1", cpu=20_000)])
    calls = [schedule(core, live(f"r{size}", *gang("job", size))) for size in range(1, 13)]
    answers = await asyncio.gather(*calls)
    assert [len(binds(answer)) for answer in answers] == list(range(1, 13))


async def test_a_caller_that_hangs_up_frees_everything(socket_folder: Any) -> None:
    limits = Limits(trials_at_once=1, trials_waiting=0)
    async with running_core(socket_folder, limits) as core:
        items = [queue(), *(node(f"n{i}") for i in range(300))]
        items += [item for number in range(200) for item in gang(f"j{number}", 5)]
        await schedule(core, inline("warm", queue()))
        call = core.scheduling().Schedule(inline("long", *items, max_sessions=1000))
        await asyncio.sleep(0.1)
        call.cancel()
        async with asyncio.timeout(30):
            while await busy(core):
                await asyncio.sleep(0.02)


async def busy(core: RunningCore) -> bool:
    try:
        await schedule(core, inline("next", queue()))
    except grpc.aio.AioRpcError as error:
        return error.code() is Code.RESOURCE_EXHAUSTED
    return False


async def test_live_sessions_go_on_while_a_trial_runs(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1")])
    items = [node(f"w{i}") for i in range(300)]
    trial = asyncio.create_task(schedule(core, live("r", *items, *gang("big", 1000))))
    await adapter.tell(*gang("job", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]
    assert len(binds(await trial)) == 1000


async def test_evictions_for_a_hypothetical_job_are_told(core: RunningCore) -> None:
    conf = configuration(
        'actions: "enqueue, allocate, preempt"\n'
        "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n"
        "- plugins:\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
    )
    running = pod_pb2.POD_PHASE_RUNNING
    low = [group("low", 1, priority_class_name="low")]
    low += [pod("low", i, node_name="n1", phase=running, preemptable=True) for i in range(4)]
    classes = [
        object_pb2.ClusterObject(
            priority_class=group_pb2.PriorityClass(uid=name, name=name, value=value)
        )
        for name, value in (("low", 1), ("high", 100))
    ]
    await core.served([queue(), node("n1"), *classes, *low], conf)
    high = [group("high", 1, priority_class_name="high"), pod("high", 0, task_priority=100)]
    response = await schedule(core, live("r", *high, max_sessions=3))
    evicted = [d.evict for d in response.decisions if d.HasField("evict")]
    assert [e.for_job for e in evicted] == ["team/high"]
    assert binds(response) == {"high-0": "n1"}


# Bombs.

# Fewer than the resources that the nodes of one cluster may offer: more are refused as invalid.
BOMB_RESOURCES = 240


def bomb(nodes: int, pods: int) -> list[object_pb2.ClusterObject]:
    """Nodes offer as many resources as a cluster may have, and every pod asks for one of them."""
    objects = [queue(), group("a", pods)]
    for number in range(nodes):
        held = node(f"n{number}")
        held.node.allocatable[f"x/{number % BOMB_RESOURCES}"] = 1
        objects.append(held)
    for number in range(pods):
        asks = pod("a", number)
        asks.pod.spec.requests[f"x/{number % BOMB_RESOURCES}"] = 1
        objects.append(asks)
    return objects


async def test_a_trial_that_needs_too_much_memory_costs_its_sender_an_error(
    socket_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    limits = Limits(trial_memory_bytes=4_000_000)
    async with running_core(socket_folder, limits) as core:
        code, detail = await refused(core, inline("r1", *bomb(600, 600)))
        assert code is Code.RESOURCE_EXHAUSTED
        assert detail.limit_name == "bytes of memory of a trial"
        small = await schedule(core, inline("r2", queue(), node("n1"), *gang("job", 1)))
        assert binds(small) == {"job-0": "n1"}
    assert "Traceback" not in capfd.readouterr().err


async def test_a_trial_that_runs_out_of_memory_leaves_others_alone(socket_folder: Path) -> None:
    limits = Limits(trial_memory_bytes=4_000_000)
    async with running_core(socket_folder, limits) as core:
        small = inline("r2", queue(), node("n1"), *gang("job", 1))
        await schedule(core, small)
        bombs = asyncio.gather(*(refused(core, inline(f"b{n}", *bomb(600, 600))) for n in range(3)))
        items = [queue(), node("n1"), *gang("job", 1)]
        answers = asyncio.gather(*(schedule(core, inline(f"s{n}", *items)) for n in range(3)))
        assert [code for code, _ in await bombs] == [Code.RESOURCE_EXHAUSTED] * 3
        assert all(binds(answer) == {"job-0": "n1"} for answer in await answers)


async def test_nodes_by_resources_are_limited_before_anything_is_made(
    socket_folder: Path,
) -> None:
    limits = Limits(trial_resources=10, trial_cells=100)
    async with running_core(socket_folder, limits) as core:
        code, detail = await refused(core, inline("r1", *bomb(20, 0)))
        assert (code, detail.limit_name) == (
            Code.RESOURCE_EXHAUSTED,
            "resources of a request's nodes",
        )
        plain = [node(f"n{number}") for number in range(40)]
        code, detail = await refused(core, inline("r2", *plain))
        assert (code, detail.limit_name) == (
            Code.RESOURCE_EXHAUSTED,
            "nodes by resources of a request",
        )
