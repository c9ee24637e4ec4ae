"""Volumes before pods, and what happens when they do not come."""

import asyncio
from collections.abc import Callable

import pytest

from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ApplyCode
from pumice.v1.decision_pb2 import Bind, VolumeChoice
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import claim, node, order, pod, put_pod, volume

Watched = Callable[..., Cluster]


async def test_a_claim_is_told_its_node_and_the_pod_waits_for_it(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.put("persistentvolumeclaims", claim("c"))
    fake_api.put("persistentvolumes", volume("v"))
    uid = put_pod(fake_api)
    cluster = watched()
    await until(lambda: cluster.synced)
    wanted = order(uid, volumes=[VolumeChoice(claim="c")])
    binder = cluster.world.binder
    result = await binder.bind(wanted)
    assert result.code is ApplyCode.WAITING
    held = fake_api.get("persistentvolumeclaims", "ns", "c")
    assert held["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n1"
    assert (await binder.bind(wanted)).code is ApplyCode.WAITING
    assert "nodeName" not in fake_api.get("pods", "ns", "p")["spec"]
    # The volume controllers do their part.
    held["spec"]["volumeName"] = "v"
    held["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    fake_api.put("persistentvolumeclaims", held)
    await until(
        lambda: any(o.persistent_volume_claim.volume_name for o in cluster.objects.values())
    )
    assert (await binder.bind(wanted)).code is ApplyCode.DONE
    assert fake_api.get("pods", "ns", "p")["spec"]["nodeName"] == "n1"


async def test_a_volume_is_reserved_for_its_claim(fake_api: FakeApi, watched: Watched) -> None:
    made = fake_api.put("persistentvolumeclaims", claim("c"))
    fake_api.put("persistentvolumes", volume("v"))
    uid = put_pod(fake_api)
    cluster = watched()
    await until(lambda: cluster.synced)
    wanted = order(uid, volumes=[VolumeChoice(claim="c", volume_name="v")])
    assert (await cluster.world.binder.bind(wanted)).code is ApplyCode.WAITING
    held = fake_api.get("persistentvolumes", "", "v")
    assert held["spec"]["claimRef"]["uid"] == made["metadata"]["uid"]
    assert held["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


async def test_volumes_that_do_not_come_are_given_up_and_undone(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    fake_api.put("persistentvolumeclaims", claim("new"))
    fake_api.put("persistentvolumeclaims", claim("old"))
    fake_api.put("persistentvolumes", volume("v"))
    uid = put_pod(fake_api)
    cluster = watched(volume_seconds=50)
    await until(lambda: cluster.synced)
    choices = [VolumeChoice(claim="new"), VolumeChoice(claim="old", volume_name="v")]
    wanted = order(uid, volumes=choices)
    assert (await cluster.world.binder.bind(wanted)).code is ApplyCode.WAITING
    assert "claimRef" in fake_api.get("persistentvolumes", "", "v")["spec"]
    while (result := await cluster.world.binder.bind(wanted)).code is ApplyCode.WAITING:
        assert cluster.clock.skew < 60
        cluster.clock.skew += 3
    assert result.code is ApplyCode.INVALID
    assert "new, old not bound" in result.reason
    held = fake_api.get("persistentvolumeclaims", "ns", "new")
    assert "volume.kubernetes.io/selected-node" not in held["metadata"]["annotations"]
    free = fake_api.get("persistentvolumes", "", "v")
    assert "claimRef" not in free["spec"]
    assert metrics.counted("volume_undos") == 2


async def test_a_pod_that_is_refused_gives_its_volumes_back(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.put("persistentvolumeclaims", claim("c"))
    fake_api.put("persistentvolumeclaims", claim("gone"))
    uid = put_pod(fake_api)
    cluster = watched()
    await until(lambda: cluster.synced)
    choices = [VolumeChoice(claim="c"), VolumeChoice(claim="nowhere")]
    result = await cluster.world.binder.bind(order(uid, volumes=choices))
    assert result.code is ApplyCode.INVALID
    assert "nowhere" in result.reason
    held = fake_api.get("persistentvolumeclaims", "ns", "c")
    assert "volume.kubernetes.io/selected-node" not in held["metadata"]["annotations"]


async def test_a_volume_of_somebody_else_is_not_taken(fake_api: FakeApi, watched: Watched) -> None:
    fake_api.put("persistentvolumeclaims", claim("c"))
    taken = volume("v")
    taken["spec"]["claimRef"] = {"namespace": "ns", "name": "other", "uid": "z"}
    fake_api.put("persistentvolumes", taken)
    uid = put_pod(fake_api)
    cluster = watched()
    await until(lambda: cluster.synced)
    wanted = order(uid, volumes=[VolumeChoice(claim="c", volume_name="v")])
    result = await cluster.world.binder.bind(wanted)
    assert result.code is ApplyCode.INVALID
    assert "ns/other" in result.reason


async def test_trouble_with_volumes_is_trouble_with_the_bind(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.put("persistentvolumeclaims", claim("c"))
    uid = put_pod(fake_api)
    cluster = watched()
    await until(lambda: cluster.synced)
    wanted = order(uid, volumes=[VolumeChoice(claim="c")])
    fake_api.trouble.append(Trouble("PATCH", "/persistentvolumeclaims/c", status=500))
    assert (await cluster.world.binder.bind(wanted)).code is ApplyCode.SERVER_ERROR
    assert (await cluster.world.binder.bind(wanted)).code is ApplyCode.WAITING


async def start(
    fake_api: FakeApi, watched: Watched, volumes: tuple[str, ...] = ("va", "vb")
) -> tuple[Cluster, str]:
    fake_api.put("persistentvolumeclaims", claim("c"))
    for name in volumes:
        fake_api.put("persistentvolumes", volume(name))
    uid = put_pod(fake_api)
    cluster = watched()
    await until(lambda: cluster.synced)
    return cluster, uid


def refs(api: FakeApi) -> list[str]:
    """The volumes that are reserved."""
    volumes = [o for key, o in api.objects.items() if key[0] == "persistentvolumes"]
    return sorted(v["metadata"]["name"] for v in volumes if v["spec"].get("claimRef"))


def selected(api: FakeApi) -> str | None:
    annotations = api.get("persistentvolumeclaims", "ns", "c")["metadata"]["annotations"]
    found: str | None = annotations.get("volume.kubernetes.io/selected-node")
    return found


def choose(uid: str, name: str = "", node: str = "n1") -> Bind:
    return order(uid, node, volumes=[VolumeChoice(claim="c", volume_name=name)])


async def test_another_volume_for_the_same_pod_frees_the_first(
    fake_api: FakeApi, watched: Watched
) -> None:
    cluster, uid = await start(fake_api, watched)
    for name in ("va", "vb", "va"):
        assert (await cluster.world.binder.bind(choose(uid, name))).code is ApplyCode.WAITING
        assert refs(fake_api) == [name]


async def test_another_node_for_the_same_pod_takes_the_claim_along(
    fake_api: FakeApi, watched: Watched
) -> None:
    cluster, uid = await start(fake_api, watched)
    for node_name in ("n1", "n2"):
        await cluster.world.binder.bind(choose(uid, node=node_name))
        assert selected(fake_api) == node_name
    # Then a volume that exists, on the first node.
    await cluster.world.binder.bind(choose(uid, "va"))
    assert selected(fake_api) is None
    assert refs(fake_api) == ["va"]


async def test_a_reservation_whose_answer_was_lost_is_undone_all_the_same(
    fake_api: FakeApi, watched: Watched
) -> None:
    cluster, uid = await start(fake_api, watched)
    fake_api.trouble.append(Trouble("PATCH", "/persistentvolumes/va", loses_answer=True))
    result = await cluster.world.binder.bind(choose(uid, "va"))
    assert result.code is ApplyCode.TIMED_OUT
    assert refs(fake_api) == ["va"]
    # Nobody goes on with it.
    cluster.clock.skew += 61
    await until(lambda: refs(fake_api) == [])
    assert (
        "annotations" not in fake_api.get("persistentvolumes", "", "va")["metadata"]
        or not (fake_api.get("persistentvolumes", "", "va")["metadata"]["annotations"])
    )


async def test_a_reservation_that_the_server_makes_late_is_undone(
    fake_api: FakeApi, watched: Watched
) -> None:
    cluster, uid = await start(fake_api, watched)
    late = Trouble("PATCH", "/persistentvolumes/va", loses_answer=True, seconds=1.5)
    fake_api.trouble.append(late)
    call = asyncio.create_task(cluster.world.binder.bind(choose(uid, "va")))
    await until(lambda: late.times == 0)
    await end_tasks(call)
    assert (await cluster.world.binder.bind(choose(uid, "vb"))).code is ApplyCode.WAITING
    assert refs(fake_api) == ["vb"]
    await until(lambda: refs(fake_api) == ["va", "vb"])
    cluster.clock.skew += 61
    await cluster.world.binder.bind(choose(uid, "vb"))
    await until(lambda: refs(fake_api) == ["vb"])


async def test_what_cannot_be_undone_now_is_undone_later(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    cluster, uid = await start(fake_api, watched)
    await cluster.world.binder.bind(choose(uid, "va"))
    fake_api.trouble.append(Trouble("PATCH", "/persistentvolumes/va", times=3, status=503))
    for failures in (1, 2, 3):
        cluster.clock.skew += 61
        await until(lambda: metrics.counted("volume_undos", result="failed") == failures)  # noqa: B023
    cluster.clock.skew += 61
    await until(lambda: refs(fake_api) == [])
    await until(lambda: "volume_reservations 0.0" in metrics.render().decode())


async def test_a_pod_that_was_bound_keeps_its_volumes_though_the_answer_was_lost(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    cluster, uid = await start(fake_api, watched)
    await cluster.world.binder.bind(choose(uid, "va"))
    bound = fake_api.get("pods", "ns", "p")
    bound["spec"]["nodeName"] = "n1"
    fake_api.put("pods", bound)
    cluster.clock.skew += 61
    await until(lambda: "volume_reservations 0.0" in metrics.render().decode())
    assert refs(fake_api) == ["va"]


@pytest.mark.parametrize("status", [403, 404])
async def test_a_bind_that_ends_otherwise_frees_the_volumes(
    fake_api: FakeApi, watched: Watched, status: int
) -> None:
    cluster, uid = await start(fake_api, watched)
    await cluster.world.binder.bind(choose(uid))
    complete(fake_api, "vb")
    await until(
        lambda: any(o.persistent_volume_claim.volume_name for o in cluster.objects.values())
    )
    # Only what is not taken can be given back.
    fake_api.get("persistentvolumeclaims", "ns", "c")["spec"].pop("volumeName")
    fake_api.trouble.append(Trouble("POST", "/binding", status=status))
    await cluster.world.binder.bind(choose(uid))
    assert selected(fake_api) is None


async def test_a_pod_that_somebody_else_places_elsewhere_gives_its_volumes_back(
    fake_api: FakeApi, watched: Watched
) -> None:
    cluster, uid = await start(fake_api, watched)
    await cluster.world.binder.bind(choose(uid))
    complete(fake_api, "vb")
    await until(
        lambda: any(o.persistent_volume_claim.volume_name for o in cluster.objects.values())
    )
    # The provisioner gave up, and another scheduler was faster.
    fake_api.get("persistentvolumeclaims", "ns", "c")["spec"].pop("volumeName")
    fake_api.get("pods", "ns", "p")["spec"]["nodeName"] = "n2"
    result = await cluster.world.binder.bind(choose(uid))
    assert (result.code, result.node) == (ApplyCode.PLACED, "n2")
    assert selected(fake_api) is None


def complete(api: FakeApi, name: str) -> None:
    """What the volume controllers do."""
    held = api.get("persistentvolumeclaims", "ns", "c")
    held["spec"]["volumeName"] = name
    held["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    api.put("persistentvolumeclaims", held)


async def test_a_decision_made_again_has_all_its_time(fake_api: FakeApi, watched: Watched) -> None:
    cluster, uid = await start(fake_api, watched)
    assert (await cluster.world.binder.bind(choose(uid, "va"))).code is ApplyCode.WAITING
    # The decision is dropped, and made again before the reservation is undone.
    cluster.clock.skew += 55
    assert (await cluster.world.binder.bind(choose(uid, "va"))).code is ApplyCode.WAITING


async def test_a_volume_that_does_not_fit_the_node_any_more_is_not_used(
    fake_api: FakeApi, watched: Watched
) -> None:
    cluster, uid = await start(fake_api, watched)
    fake_api.put("nodes", node("n1", zone="a"))
    wanted = {"key": "zone", "operator": "In", "values": ["b"]}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    fake_api.get("persistentvolumes", "", "va")["spec"]["nodeAffinity"] = terms
    complete(fake_api, "va")
    await until(
        lambda: any(o.persistent_volume_claim.volume_name for o in cluster.objects.values())
    )
    result = await cluster.world.binder.bind(choose(uid))
    assert result.code is ApplyCode.INVALID
    assert "node affinity of volume va excludes node n1" in result.reason
    assert "nodeName" not in fake_api.get("pods", "ns", "p")["spec"]
    fake_api.put("nodes", node("n1", zone="b"))
    assert (await cluster.world.binder.bind(choose(uid))).code is ApplyCode.DONE


async def test_a_volume_that_an_earlier_process_reserved_is_freed(
    fake_api: FakeApi, watched: Watched
) -> None:
    uid = fake_api.put("persistentvolumeclaims", claim("c"))["metadata"]["uid"]
    held = volume("va")
    held["metadata"]["annotations"] = {"pv.kubernetes.io/bound-by-controller": "yes"}
    held["spec"]["claimRef"] = {"namespace": "ns", "name": "c", "uid": uid}
    fake_api.put("persistentvolumes", held)
    fake_api.put("persistentvolumes", volume("vb"))
    pod_uid = put_pod(fake_api)
    cluster = watched()
    await until(lambda: cluster.synced)
    assert (await cluster.world.binder.bind(choose(pod_uid, "vb"))).code is ApplyCode.WAITING
    assert refs(fake_api) == ["vb"]


async def test_an_administrators_choice_of_a_claim_survives_the_undoing(
    fake_api: FakeApi, watched: Watched
) -> None:
    meant = volume("va")
    meant["spec"]["claimRef"] = {"namespace": "ns", "name": "c"}
    fake_api.put("persistentvolumes", meant)
    cluster, uid = await start(fake_api, watched, volumes=())
    assert (await cluster.world.binder.bind(choose(uid, "va"))).code is ApplyCode.WAITING
    assert fake_api.get("persistentvolumes", "", "va")["spec"]["claimRef"]["uid"]
    cluster.clock.skew += 61
    await until(
        lambda: "uid" not in fake_api.get("persistentvolumes", "", "va")["spec"]["claimRef"]
    )
    assert fake_api.get("persistentvolumes", "", "va")["spec"]["claimRef"]["name"] == "c"


async def test_pods_that_share_a_claim_share_its_reservation(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    cluster, uid = await start(fake_api, watched)
    other = fake_api.put("pods", pod("q"))["metadata"]["uid"]
    second = Bind(namespace="ns", name="q", uid=other, node="n1", volumes=choose(uid, "va").volumes)
    await cluster.world.binder.bind(choose(uid, "va"))
    await cluster.world.binder.bind(second)
    # Nobody goes on with the first pod; the second still waits for the volume.
    cluster.clock.skew += 40
    await cluster.world.binder.bind(second)
    cluster.clock.skew += 40
    await until(lambda: "volume_reservations 1.0" in metrics.render().decode())
    assert refs(fake_api) == ["va"]
    cluster.clock.skew += 40
    await until(lambda: refs(fake_api) == [])


async def test_the_end_of_the_world_undoes_what_is_open(
    fake_api: FakeApi, watched: Watched
) -> None:
    cluster, uid = await start(fake_api, watched)
    await cluster.world.binder.bind(choose(uid, "va"))
    await end_tasks(cluster.task)
    assert refs(fake_api) == []
