"""What people see of a core."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from pumice.client.details import read_status_details
from pumice.server.configuration import configuration_text, read
from pumice.server.core_environment import CoreEnvironment
from pumice.v1 import (
    configuration_pb2,
    group_pb2,
    inspection_service_pb2,
    object_pb2,
)
from pumice.v1.configuration_pb2 import Configuration
from tests.server.running import RunningCore, configuration, gang, node, queue, tombstone

pb = inspection_service_pb2
Code = grpc.StatusCode
OBJECTS = [
    queue("red", weight=3),
    queue("blue"),
    *(node(f"n{number}") for number in range(3)),
    *gang("job", 2),
]
OBJECTS[5].pod_group.queue = "red"


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_queues_with_their_shares(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    await adapter.decisions()
    answer = await core.inspection().ListQueues(inspection_service_pb2.ListQueuesRequest())
    assert [q.share.name for q in answer.queues] == ["blue", "red"]
    red = answer.queues[1]
    assert red.weight == 3
    assert red.share.allocated["cpu"] == 2000
    assert red.share.deserved["cpu"] >= 2000
    assert answer.session == 1
    assert answer.based_on_seq == adapter.seq


async def test_jobs_and_what_they_wait_for(core: RunningCore) -> None:
    large = gang("large", 1, cpu=99_000)
    large[0].pod_group.queue = "blue"
    adapter = await core.served([*OBJECTS, *large])
    await adapter.decisions()
    stub = core.inspection()
    everyone = await stub.ListJobs(pb.ListJobsRequest())
    assert [job.name for job in everyone.jobs] == ["job", "large"]
    assert everyone.jobs[0].bound_count == 2
    assert everyone.jobs[1].reasons
    waiting = await stub.ListJobs(pb.ListJobsRequest(queue="blue", namespace="team"))
    assert [job.name for job in waiting.jobs] == ["large"]
    running = [group_pb2.POD_GROUP_PHASE_RUNNING]
    assert not (await stub.ListJobs(pb.ListJobsRequest(phases=running))).jobs


async def test_nodes_come_in_pages(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    await adapter.decisions()
    stub = core.inspection()
    first = await stub.ListNodes(pb.ListNodesRequest(page_size=2))
    request = pb.ListNodesRequest(page_size=2, page_token=first.next_page_token)
    second = await stub.ListNodes(request)
    nodes = [*first.nodes, *second.nodes]
    assert [n.name for n in nodes] == ["n0", "n1", "n2"]
    assert second.next_page_token == ""
    assert sum(n.used["cpu"] for n in nodes) == 2000
    assert sum(n.pod_count for n in nodes) == 2


async def test_pages_go_on_by_name_whatever_comes_and_goes(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    await adapter.decisions()
    stub = core.inspection()
    first = await stub.ListNodes(pb.ListNodesRequest(page_size=2))
    assert [n.name for n in first.nodes] == ["n0", "n1"]
    # One that was shown goes, and one before it comes.
    await adapter.tell(node("a0"), tombstone(object_pb2.KIND_NODE, "node-n1"))
    request = pb.ListNodesRequest(page_size=2, page_token=first.next_page_token)
    assert [n.name for n in (await stub.ListNodes(request)).nodes] == ["n2"]


async def test_sessions_come_in_pages_newest_first(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    for number in range(1, 5):
        await core.session(number)
        await adapter.tell(node(f"m{number}"))
        core.clock.advance(1)
    stub, seen, token = core.inspection(), [], ""
    while True:
        page = await stub.ListSessions(pb.ListSessionsRequest(page_size=2, page_token=token))
        seen += [session.session for session in page.sessions]
        token = page.next_page_token
        if not token:
            break
    assert seen[-4:] == [4, 3, 2, 1]
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize("wrong", [{"page_size": -1}, {"page_token": "?"}])
async def test_pages_must_make_sense(core: RunningCore, wrong: dict[str, Any]) -> None:
    await core.served(OBJECTS)
    error = await refused(core.inspection().ListNodes(pb.ListNodesRequest(**wrong)))
    assert error.code() is Code.INVALID_ARGUMENT


async def test_sessions_are_kept(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    await core.session(1)
    await adapter.tell(node("n9"))
    core.clock.advance(1)
    await core.session(2)
    stub = core.inspection()
    kept = await stub.ListSessions(pb.ListSessionsRequest())
    assert [s.session for s in kept.sessions] == [2, 1]
    decided = await stub.ListSessions(pb.ListSessionsRequest(decided_only=True))
    assert [(s.session, s.bind_count) for s in decided.sessions] == [(1, 2)]
    detail = await core.session(1)
    assert [d.bind.name for d in detail.decisions] == ["job-0", "job-1"]
    error = await refused(stub.GetSession(pb.GetSessionRequest(session=99)))
    assert error.code() is Code.NOT_FOUND


async def test_sessions_are_watched(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    await core.session(1)
    # One that knows sessions from long ago gets all that is kept, then what comes.
    watching = core.inspection().WatchSessions(
        pb.WatchSessionsRequest(after_session=-1, decided_only=True)
    )
    assert (await watching.read()).session.summary.session == 1
    await adapter.tell(node("n9"))
    core.clock.advance(1)
    await core.session(2)
    other = gang("other", 1)
    other[0].pod_group.queue = "red"
    await adapter.tell(*other)
    core.clock.advance(1)
    seen = await watching.read()
    assert (seen.session.summary.session, seen.skipped_count) == (3, 1)
    assert [d.bind.name for d in seen.session.decisions] == ["other-0"]
    watching.cancel()


async def test_a_watcher_that_knew_an_earlier_core_gets_what_comes(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    await core.session(1)
    watching = core.inspection().WatchSessions(pb.WatchSessionsRequest(after_session=900))
    reading = asyncio.ensure_future(watching.read())
    number = 0
    while not reading.done():
        # Sessions run before the watcher is there, too.
        number += 1
        await adapter.tell(node(f"m{number}"))
        core.clock.advance(1)
        await asyncio.sleep(0.01)
    assert 1 < (await reading).session.summary.session < 900
    watching.cancel()


@pytest.mark.parametrize("compat", [[], ["kube-batch"]])
def test_the_built_in_configuration_is_written_as_it_is_read(compat: list[str]) -> None:
    registry = CoreEnvironment().registry
    built_in = read(Configuration(compat=compat), registry).scheduler
    text = configuration_text(built_in)
    assert read(Configuration(scheduler_conf=text, compat=compat), registry).scheduler == built_in


async def test_a_configuration_that_nobody_wrote_is_spelt_out(core: RunningCore) -> None:
    await core.served(OBJECTS)
    answer = await core.inspection().GetConfig(pb.GetConfigRequest(cluster="c1"))
    assert 'actions: "enqueue, allocate, backfill"' in answer.configuration.scheduler_conf


async def test_the_configuration_in_use_is_shown(core: RunningCore) -> None:
    adapter = await core.served(OBJECTS)
    await adapter.configure(configuration("actions: x\n"))
    answer = await core.inspection().GetConfig(pb.GetConfigRequest(cluster="c1"))
    assert answer.configuration.default_queue == "default"
    assert answer.configuration.schedule_period.seconds == 1
    assert answer.effective_config_hash
    assert answer.rejected.scheduler_conf == "actions: x\n"
    assert answer.problems[0].line == 1


async def test_a_configuration_is_checked(core: RunningCore) -> None:
    stub = core.inspection()
    text = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'
    good = await stub.CheckConfig(
        pb.CheckConfigRequest(configuration=configuration_pb2.Configuration(scheduler_conf=text))
    )
    assert good.valid
    assert {note.line for note in good.notes} == {1, 3, 4}
    worse = configuration_pb2.Configuration(scheduler_conf=text.replace("gang", "gangg"))
    bad = await stub.CheckConfig(pb.CheckConfigRequest(configuration=worse))
    assert (bad.valid, bad.problems[0].line, bad.problems[0].suggestion) == (False, 4, "gang")
    long = configuration_pb2.Configuration(scheduler_conf="#" * 2**20 + "\n")
    error = await refused(stub.CheckConfig(pb.CheckConfigRequest(configuration=long)))
    assert error.code() is Code.INVALID_ARGUMENT


async def test_clusters_are_found_by_name(core: RunningCore) -> None:
    stub = core.inspection()
    error = await refused(stub.ListQueues(inspection_service_pb2.ListQueuesRequest()))
    assert error.code() is Code.NOT_FOUND
    await core.served(OBJECTS, cluster="alpha")
    unfinished = core.adapter(cluster="beta")
    await unfinished.connect()
    error = await refused(stub.ListQueues(inspection_service_pb2.ListQueuesRequest()))
    assert error.code() is Code.INVALID_ARGUMENT
    error = await refused(stub.ListQueues(pb.ListQueuesRequest(cluster="alhpa")))
    detail = read_status_details(error.trailing_metadata())
    assert error.code() is Code.NOT_FOUND
    assert detail.nearest_names[0] == "alpha"
    error = await refused(stub.ListQueues(pb.ListQueuesRequest(cluster="beta")))
    assert error.code() is Code.UNAVAILABLE


async def test_health_is_told(core: RunningCore) -> None:
    stub: Any = health_pb2_grpc.HealthStub(core.channel())
    for name in ("", "pumice.v1.ClusterService", "pumice.v1.InspectionService"):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_reflection_names_the_services(core: RunningCore) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(
        core.channel()  # type: ignore[arg-type]
    )
    call = stub.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services="*"))
    answer = await call.read()
    names = {service.name for service in answer.list_services_response.service}
    assert {"pumice.v1.ClusterService", "grpc.health.v1.Health"} <= names
    call.cancel()


async def test_an_empty_queue_is_not_overused(core: RunningCore) -> None:
    adapter = await core.served([queue(), queue("empty"), node("n1"), *gang("job", 4)])
    await adapter.decisions()
    await core.session(1)
    answer = await core.inspection().ListQueues(inspection_service_pb2.ListQueuesRequest())
    overused = {each.share.name: each.share.overused for each in answer.queues}
    assert overused == {"default": True, "empty": False}
