"""Volumes before pods, and what happens when they do not come."""

from collections.abc import Callable

from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ApplyCode
from pumice.v1.decision_pb2 import VolumeChoice
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import claim, order, put_pod, volume

Watched = Callable[..., Cluster]


async def test_a_claim_is_told_its_node_and_the_pod_waits_for_it(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.put("persistentvolumeclaims", claim("c"))
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
    cluster.clock.skew = 60
    result = await cluster.world.binder.bind(wanted)
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
