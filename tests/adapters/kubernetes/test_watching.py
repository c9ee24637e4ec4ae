"""Lists, watches and what they make of a cluster."""

import asyncio
from collections.abc import Callable

import pytest

from pumice.adapters.kubernetes import queues
from pumice.adapters.kubernetes.selection import Selection
from pumice.adapters.kubernetes.sharding import Shard
from pumice.adapters.runtime.metrics import Metrics
from tests.adapters.fake_clock import CountingBackoff, until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import (
    PODGROUPS,
    QUEUES,
    group,
    node,
    pod,
    queue,
)

Watched = Callable[..., Cluster]


async def test_all_pages_of_a_list_arrive(fake_api: FakeApi, watched: Watched) -> None:
    for number in range(23):
        fake_api.put("nodes", node(f"n{number:02d}"))
    cluster = watched(page_size=10)
    await until(lambda: cluster.synced)
    assert len(cluster.names("node")) == 23
    pages = [call for call in fake_api.made("GET", "/nodes$") if "limit" in call[2]]
    tokens = [call[2].get("continue", "").partition(":")[0] for call in pages]
    assert tokens == ["", "10", "20"]


async def test_changes_arrive_after_the_list(fake_api: FakeApi, watched: Watched) -> None:
    first = fake_api.put("nodes", node("n1"))
    cluster = watched()
    await until(lambda: cluster.synced)
    fake_api.put("nodes", node("n2"))
    await until(lambda: cluster.names("node") == ["n1", "n2"])
    fake_api.remove("nodes", "", "n1")
    await until(lambda: cluster.names("node") == ["n2"])
    assert cluster.gone == [first["metadata"]["uid"]]


async def test_a_bookmark_moves_the_watch_on(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    cluster = watched()
    await until(lambda: cluster.synced)
    fake_api.bookmark("nodes")
    await until(lambda: metrics.counted("bookmarks", resource="nodes"))
    # Everything before the bookmark is forgotten; the watch goes on after it, without a list.
    fake_api.forget_history()
    fake_api.trouble.append(Trouble("GET", "/nodes.*watch=1", times=1))
    fake_api.end_watches("nodes")
    await until(lambda: metrics.counted("watches", resource="nodes") >= 2)
    fake_api.put("nodes", node("n1"))
    await until(lambda: cluster.names("node") == ["n1"])
    assert metrics.counted("lists", resource="nodes") == 1


async def test_an_expired_watch_lists_anew_and_finds_what_went(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    fake_api.put("nodes", node("stays"))
    fake_api.put("nodes", node("goes"))
    cluster = watched()
    await until(lambda: cluster.synced)
    fake_api.objects.pop(("nodes", "", "goes"))
    fake_api.expire("nodes")
    await until(lambda: cluster.names("node") == ["stays"])
    assert metrics.counted("relists", resource="nodes") == 1


async def test_a_list_that_expires_between_pages_begins_again_in_one_piece(
    fake_api: FakeApi, watched: Watched
) -> None:
    for number in range(5):
        fake_api.put("nodes", node(f"n{number}"))
    fake_api.trouble.append(Trouble("GET", "/nodes.*continue=", status=410))
    cluster = watched(page_size=2)
    await until(lambda: cluster.synced)
    assert len(cluster.names("node")) == 5
    assert "limit" not in fake_api.made("GET", "/nodes$")[2][2]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_in_trouble_is_waited_for(
    fake_api: FakeApi, watched: Watched, metrics: Metrics, status: int
) -> None:
    fake_api.put("nodes", node("n1"))
    headers = {"Retry-After": "1"}
    fake_api.trouble.append(Trouble("GET", "/nodes", times=3, status=status, headers=headers))
    cluster = watched()
    await until(lambda: cluster.synced)
    assert cluster.names("node") == ["n1"]
    assert metrics.counted("api_retries") >= 3


async def test_pods_are_ours_or_on_a_node(fake_api: FakeApi, watched: Watched) -> None:
    fake_api.put("pods", pod("ours"))
    fake_api.put("pods", pod("ours-placed", node="n1"))
    fake_api.put("pods", pod("theirs", scheduler="other"))
    fake_api.put("pods", pod("theirs-placed", scheduler="other", node="n1"))
    cluster = watched()
    await until(lambda: cluster.synced)
    assert cluster.names("pod") == ["ours", "ours-placed", "theirs-placed"]
    # The server itself leaves out what is not ours.
    selectors = {call[2]["fieldSelector"] for call in fake_api.made("GET", "/pods$")}
    assert selectors == {
        "spec.schedulerName=volcano",
        "spec.nodeName!=,spec.schedulerName!=volcano,status.phase!=Succeeded,status.phase!=Failed",
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_of_another_scheduler_leaves_the_cache(
    fake_api: FakeApi, watched: Watched, phase: str
) -> None:
    done = pod("done", scheduler="other", node="n1")
    done["status"]["phase"] = phase
    fake_api.put("pods", done)
    fake_api.put("pods", pod("runs", scheduler="other", node="n1"))
    fake_api.put("pods", pod("ours", node="n1"))
    cluster = watched()
    await until(lambda: cluster.synced)
    assert cluster.names("pod") == ["ours", "runs"]
    for name, scheduler in (("runs", "other"), ("ours", "volcano")):
        finished = pod(name, scheduler=scheduler, node="n1")
        finished["status"]["phase"] = phase
        fake_api.put("pods", finished)
    await until(lambda: cluster.names("pod") == ["ours"])
    # The status of a PodGroup counts its own finished pods.
    await until(lambda: all(o.pod.phase > 2 for o in cluster.objects.values() if o.HasField("pod")))
    # Nor does a single reading bring it back.
    assert (await cluster.world.read_pod("ns", "runs")).object is None
    assert (await cluster.world.read_pod("ns", "ours")).object is not None


async def test_a_node_that_loses_its_label_goes(fake_api: FakeApi, watched: Watched) -> None:
    fake_api.put("nodes", node("n1", pool="batch"))
    fake_api.put("nodes", node("n2", pool="web"))
    cluster = watched(selection=Selection(node_labels=(("pool", "batch"), ("pool", "gpu"))))
    await until(lambda: cluster.synced)
    assert cluster.names("node") == ["n1"]
    fake_api.put("nodes", node("n1", pool="web"))
    fake_api.put("nodes", node("n2", pool="gpu"))
    await until(lambda: cluster.names("node") == ["n2"])


async def test_several_schedulers_divide_a_cluster(fake_api: FakeApi, watched: Watched) -> None:
    for number in range(20):
        fake_api.put("nodes", node(f"n{number}"))
        fake_api.put("pods", pod(f"p{number}", ownerReferences=[{"name": f"owner{number}"}]))
        fake_api.put(PODGROUPS, group(f"g{number}", ownerReferences=[{"name": f"owner{number}"}]))
    parts = [watched(selection=Selection(shard=Shard(f"volcano-{index}", 2))) for index in range(2)]
    await until(lambda: all(part.synced for part in parts))
    for kind in ("node", "pod", "pod_group"):
        names = [part.names(kind) for part in parts]
        assert len(names[0]) + len(names[1]) == 20
        assert all(names)
    # A job and its pods go together, because they have the same owner.
    for part in parts:
        assert [n[1:] for n in part.names("pod")] == [n[1:] for n in part.names("pod_group")]


async def test_resources_without_a_definition_are_found_when_they_appear(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.resources.discard(PODGROUPS)
    cluster = watched()
    await until(lambda: cluster.synced)

    def asked() -> int:
        # The PodGroups of Kubernetes itself have no definition to wait for.
        found = [path for _, path, _ in fake_api.made("GET", "/podgroups$")]
        return sum("/apis/scheduling.k8s.io/" not in path for path in found)

    # Once the definitions are known, nobody asks for objects of a kind that is not there.
    await until(lambda: not cluster.world._definitions.is_unknown)
    before = -1
    for _ in range(20):
        if asked() == before:
            break
        before = asked()
        await asyncio.sleep(0.5)
    assert asked() == before
    fake_api.resources.add(PODGROUPS)
    fake_api.put(PODGROUPS, group("g1"))
    name = "customresourcedefinitions.apiextensions.k8s.io"
    fake_api.put(name, {"metadata": {"name": PODGROUPS}})
    await until(lambda: cluster.names("pod_group") == ["g1"])


async def test_a_definition_that_goes_takes_its_objects_with_it(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.put(PODGROUPS, group("g1"))
    cluster = watched()
    await until(lambda: cluster.synced)
    fake_api.resources.discard(PODGROUPS)
    fake_api.expire(PODGROUPS)
    await until(lambda: cluster.names("pod_group") == [])


async def test_groups_of_kube_batch_are_read_where_volcano_has_none_of_the_name(
    fake_api: FakeApi, watched: Watched
) -> None:
    old = "podgroups.scheduling.incubator.k8s.io"
    fake_api.resources.add(old)
    fake_api.put(PODGROUPS, group("both", uid="new"))
    fake_api.put(old, group("both", uid="old"))
    fake_api.put(old, group("only", uid="only"))
    cluster = watched()
    await until(lambda: cluster.synced)
    assert {uid for uid in ("new", "old", "only") if uid in cluster.objects} == {"new", "only"}
    fake_api.remove(PODGROUPS, "ns", "both")
    await until(lambda: "old" in cluster.objects)
    assert "new" not in cluster.objects


async def test_an_object_that_cannot_be_read_is_reported_and_stops_nobody(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    bad = pod("bad")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    uid = fake_api.put("pods", bad)["metadata"]["uid"]
    fake_api.put("pods", pod("good"))
    cluster = watched()
    await until(lambda: cluster.synced)
    assert cluster.names("pod") == ["good"]
    assert metrics.counted("bad_objects", kind="pod") == 1
    await until(lambda: "events" in {resource for resource, _, _ in fake_api.objects})
    event = next(o for key, o in fake_api.objects.items() if key[0] == "events")
    assert event["involvedObject"]["uid"] == uid
    assert event["type"] == "Warning"
    assert "cpu" in event["message"]


async def test_a_good_version_stays_while_the_new_one_is_bad(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    fake_api.put("pods", pod("p"))
    cluster = watched()
    await until(lambda: cluster.synced)
    bad = pod("p")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-1"
    fake_api.put("pods", bad)
    await until(lambda: metrics.counted("bad_objects"))
    assert cluster.names("pod") == ["p"]
    fake_api.remove("pods", "ns", "p")
    await until(lambda: cluster.names("pod") == [])


async def test_missing_rights_are_named_and_waited_for(
    fake_api: FakeApi, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    message = 'nodes is forbidden: User "x" cannot list resource "nodes" in API group ""'
    fake_api.trouble.append(Trouble("GET", "/nodes", times=3, status=403, message=message))
    cluster = watched()
    await until(lambda: cluster.synced)
    assert "missing rights: list on nodes" in caplog.text


async def test_queues_are_made_and_opened(fake_api: FakeApi, watched: Watched) -> None:
    cluster = watched(make_queues=True, default_queue="standard")
    await until(lambda: cluster.names("queue") == ["root", "standard"])
    made = fake_api.get(QUEUES, "", "standard")
    await until(lambda: made.get("status") == {"state": "Open"})
    assert made["spec"] == {"weight": 1, "reclaimable": True}
    assert fake_api.get(QUEUES, "", "root")["spec"]["reclaimable"] is False


async def test_queues_that_are_there_are_left_alone(fake_api: FakeApi, watched: Watched) -> None:
    for name in ("root", "default"):
        fake_api.put(QUEUES, {**queue(name), "status": {"state": "Closed"}})
    cluster = watched(make_queues=True)
    await until(lambda: cluster.synced)
    await until(lambda: len(fake_api.made("GET", "/queues/")) == 2)
    assert not fake_api.made("POST", "/queues")
    assert not fake_api.made("PATCH", "/queues")


async def test_a_default_queue_that_is_refused_is_made_later(
    fake_api: FakeApi, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    backoff = CountingBackoff()
    monkeypatch.setattr(queues, "_BACKOFF", backoff)
    fake_api.trouble.append(Trouble("POST", "/queues", times=3, status=422))
    cluster = watched(make_queues=True)
    await until(lambda: cluster.names("queue") == ["default", "root"])
    assert backoff.asked == [1, 2, 3]
