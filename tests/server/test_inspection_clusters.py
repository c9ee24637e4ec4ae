"""Pages of one session, clusters in a list, and clusters that are forgotten."""

import asyncio
from typing import Any

from pumice.client.details import read_status_details
from pumice.core import kernel
from pumice.v1 import cluster_service_pb2, core_pb2, object_pb2
from pumice.v1.administration_service_pb2 import ForgetClusterRequest
from pumice.v1.administration_service_pb2_grpc import AdministrationServiceStub
from tests.server.running import RunningCore, configuration, gang, node, queue
from tests.server.test_inspection import OBJECTS, Code, pb, refused


async def test_a_page_larger_than_the_largest_becomes_the_largest(core: RunningCore) -> None:
    await core.served(OBJECTS)
    for size in (5001, 2**31 - 1):
        page = await core.inspection().ListNodes(pb.ListNodesRequest(page_size=size))
        assert page.nodes
        assert not page.next_page_token


async def test_every_decision_of_a_large_session_is_found_page_by_page(core: RunningCore) -> None:
    nodes = [node(f"n{number:03d}", cpu=200_000) for number in range(110)]
    jobs = [item for number in range(60) for item in gang(f"job-{number}", 100, cpu=1000)]
    waiting = [item for number in range(7) for item in gang(f"huge-{number}", 1, cpu=10**9)]
    adapter = await core.served([queue(), *nodes])
    for begin in range(0, len(jobs), 500):
        await adapter.tell(*jobs[begin : begin + 500])
    await adapter.tell(*waiting)
    core.clock.advance(1)
    stub, number = core.inspection(), 0
    while not number:
        kept = await stub.ListSessions(pb.ListSessionsRequest(decided_only=True))
        number = max((s.session for s in kept.sessions if s.bind_count == 6000), default=0)
        core.clock.advance(1)
        await asyncio.sleep(0.01)
    request = pb.GetSessionRequest(session=number, page_size=100_000)
    first = await stub.GetSession(request)
    assert (len(first.session.decisions), first.session.truncated) == (5000, True)
    assert first.session.summary.bind_count == 6000
    rest = await stub.GetSession(
        pb.GetSessionRequest(page_size=5000, page_token=first.next_page_token)
    )
    names = [d.bind.name for page in (first, rest) for d in page.session.decisions]
    assert (len(names), len(set(names))) == (6000, 6000)
    assert len(rest.session.waits) == first.session.summary.wait_count == 7
    assert not rest.next_page_token
    other = pb.GetSessionRequest(session=number + 1, page_token=first.next_page_token)
    assert (await refused(stub.GetSession(other))).code() is Code.INVALID_ARGUMENT


async def test_clusters_are_listed_with_their_adapter_and_why_they_stand_still(
    core: RunningCore,
) -> None:
    await core.served(OBJECTS, cluster="a", adapter_version="v9", epoch=5)
    refused_text = configuration("actions: nonsense")
    await core.served([queue()], refused_text, cluster="b")
    gone = await core.served([queue()], cluster="c")
    await gone.close()
    stub = core.inspection()
    await core.session(1, cluster="a")
    listed: list[pb.ClusterInfo] = []
    while len(listed) < 3 or not listed[2].HasField("pause"):
        answer = await stub.ListClusters(pb.ListClustersRequest())
        listed = list(answer.clusters)
    served, unconfigured, away = listed
    assert (served.name, served.adapter_version, served.epoch) == ("a", "v9", 5)
    assert not served.HasField("pause")
    assert (served.last_session, served.HasField("last_session_time")) == (1, True)
    counts = {object_pb2.Kind.Name(held.kind): held.count for held in served.object_counts}
    assert counts["KIND_NODE"] == 3
    assert unconfigured.pause.reason == core_pb2.PAUSE_REASON_NO_CONFIGURATION
    assert unconfigured.pause.message == "no valid configuration: nothing is scheduled"
    assert away.pause.reason == core_pb2.PAUSE_REASON_NO_ADAPTER
    assert answer.core.version
    assert answer.core.core_id == core.env.core_id
    jobs = await stub.ListJobs(pb.ListJobsRequest(cluster="b"))
    assert jobs.pause == unconfigured.pause
    config = await stub.GetConfig(pb.GetConfigRequest(cluster="b"))
    assert (config.pause, config.core) == (unconfigured.pause, answer.core)
    assert config.core.compiled_kernel is (kernel.rows is not None)


async def test_a_forgotten_cluster_begins_again_at_any_epoch(core: RunningCore) -> None:
    stub: Any = AdministrationServiceStub(core.channel())
    adapter = await core.served(OBJECTS, epoch=50)
    connected = await refused(stub.ForgetCluster(ForgetClusterRequest(cluster="c1")))
    assert connected.code() is Code.FAILED_PRECONDITION
    assert read_status_details(connected.trailing_metadata()).reason == "CLUSTER_CONNECTED"
    forgotten = await stub.ForgetCluster(ForgetClusterRequest(cluster="c1", force=True))
    assert forgotten.epoch == 50
    farewell = await adapter.next("go_away")
    assert farewell.reason == cluster_service_pb2.GO_AWAY_REASON_FORGOTTEN
    answer = await core.inspection().ListClusters(pb.ListClustersRequest())
    assert not answer.clusters
    again = await core.served(OBJECTS, epoch=3)
    assert len(await again.decisions()) == 2
    unknown = await refused(stub.ForgetCluster(ForgetClusterRequest(cluster="nobody")))
    assert unknown.code() is Code.NOT_FOUND
    unnamed = await refused(stub.ForgetCluster(ForgetClusterRequest()))
    assert unnamed.code() is Code.INVALID_ARGUMENT
