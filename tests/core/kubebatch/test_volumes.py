"""Volumes in kube-batch's mode: taken when a pod is placed, and bound with it."""

from __future__ import annotations

from typing import Any

from pumice.core.decisions import Bind, VolumeChoice
from pumice.core.model.pod import PodVolume
from pumice.core.model.selectors import NodeSelectorTerm, Operator, Requirement
from pumice.core.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumePhase,
)
from tests.core import builders
from tests.core.kubebatch.older import binds, cluster, lone

GIB = builders.GIB
LATE = StorageClass("uid-late", "late", wait_for_first_consumer=True)


def claim(name: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        f"uid-{name}",
        "ns",
        name,
        phase=VolumePhase.PENDING,
        storage_class_name="late",
        request_bytes=GIB,
        access_modes=("ReadWriteOnce",),
    )


def volume(name: str, node: str) -> PersistentVolume:
    here = Requirement("host", Operator.IN, (node,))
    return PersistentVolume(
        f"uid-{name}",
        name,
        phase=VolumePhase.AVAILABLE,
        storage_class_name="late",
        capacity_bytes=GIB,
        access_modes=("ReadWriteOnce",),
        node_terms=(NodeSelectorTerm((here,)),),
    )


def nodes() -> list[Any]:
    return [builders.node(name, labels={"host": name}) for name in ("n1", "n2")]


def pod(name: str, wanted: str) -> Any:
    return lone(name, spec={"volumes": (PodVolume(wanted),)})


def test_a_pod_goes_where_its_volume_is_and_takes_it_along() -> None:
    known = cluster(nodes(), LATE, volume("pv", "n2"), claim("c"), pod("p", "c"))
    (bind,) = known.schedule(1).decisions
    assert isinstance(bind, Bind)
    assert (bind.node, bind.volumes) == ("n2", (VolumeChoice("c", "pv"),))


def test_a_volume_is_taken_once() -> None:
    claims = [claim("c1"), claim("c2")]
    pods = [pod("p1", "c1"), pod("p2", "c2")]
    known = cluster(nodes(), LATE, volume("pv", "n2"), claims, pods)
    assert binds(known.schedule(1)) == {"p1": "n2"}


def test_without_its_claim_a_pod_waits_and_says_so() -> None:
    result = cluster(nodes(), LATE, pod("p", "c")).schedule(1)
    assert binds(result) == {}
    (reason, *_) = result.waits[0].reasons
    assert [(n.reason, n.nodes) for n in reason.nodes] == [
        ('persistentvolumeclaim "c" not found', 2)
    ]


def test_what_a_gang_that_is_short_took_is_free_in_the_next_session() -> None:
    group = builders.pod_group("g", 2)
    member = builders.pod("g-0", "g", spec={"volumes": (PodVolume("c1"),)})
    objects = [*nodes(), LATE, volume("pv", "n2"), claim("c1"), claim("c2"), group, member]
    known = cluster(objects)
    assert binds(known.schedule(1)) == {}
    builders.fill(known, builders.priority_class("high", 9))
    urgent = lone("p", spec={"volumes": (PodVolume("c2"),), "priority_class_name": "high"})
    builders.fill(known, urgent)
    assert binds(known.schedule(2)) == {"p": "n2"}
