"""How many volumes a node may attach, and in which zones volumes are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import Deleted, Upserted
from pumice.core.model.status import TaskStatus
from pumice.core.model.storage import (
    CsiNode,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tests.core.builders import node
from tests.core.plugins.opened import Opened
from tests.core.plugins.storage import (
    ZONE,
    claim,
    opened_with,
    storage_class,
    using,
    volume,
)
from tests.core.plugins.verdicts import UU, U, Verdict, verdicts, why_nowhere

EXCEEDED: Verdict = [("node(s) exceed max volume count", U)]
NO_ZONE: Verdict = [("node(s) had no available volume zone", UU)]
DRIVER = "csi.example.com"


def limit(count: int, name: str = "n1") -> CsiNode:
    return CsiNode(f"uid-csi-{name}", name, ((DRIVER, count),))


def attachable(name: str) -> tuple[Any, Any]:
    """A volume of the driver and the claim that has it."""
    return (
        volume(f"pv-{name}", csi_driver=DRIVER, csi_handle=f"h-{name}"),
        claim(name, volume_name=f"pv-{name}"),
    )


# Limits.


def test_attached_and_new_volumes_together_may_reach_the_limit_and_no_more() -> None:
    objects = (node("n1"), *attachable("a"), *attachable("b"), using("old", "a", on="n1"))
    assert verdicts(opened_with(*objects, using("p", "b"), limit(2)), "p")["n1"] == []
    assert verdicts(opened_with(*objects, using("p", "b"), limit(1)), "p")["n1"] == EXCEEDED


def test_a_volume_that_a_pod_on_the_node_uses_is_free() -> None:
    objects = (node("n1"), *attachable("a"), using("old", "a", on="n1"), limit(1))
    assert verdicts(opened_with(*objects, using("p", "a")), "p")["n1"] == []


def test_attachments_count_even_without_a_pod() -> None:
    attachment = VolumeAttachment("uid-va", "va", DRIVER, "n1", "pv-a")
    objects = (node("n1"), *attachable("a"), *attachable("b"), attachment, limit(1))
    assert verdicts(opened_with(*objects, using("p", "b")), "p")["n1"] == EXCEEDED


def test_a_claim_without_a_volume_counts_by_its_class() -> None:
    objects = (node("n1"), storage_class("slow", DRIVER), claim("c"), using("p", "c"))
    assert verdicts(opened_with(*objects, limit(1)), "p")["n1"] == []
    assert verdicts(opened_with(*objects, limit(0)), "p")["n1"] == EXCEEDED


@pytest.mark.parametrize("others", [[], [limit(-1)]])
def test_without_a_csi_node_or_a_published_limit_everything_passes(others: list[CsiNode]) -> None:
    objects = (node("n1"), *attachable("a"), *attachable("b"), using("old", "a", on="n1"))
    assert verdicts(opened_with(*objects, using("p", "b"), *others), "p")["n1"] == []


def test_a_pod_placed_in_the_session_attaches_its_volumes() -> None:
    opened = opened_with(
        node("n1"), *attachable("a"), *attachable("b"), using("q", "a"), using("p", "b"), limit(1)
    )
    assert verdicts(opened, "p")["n1"] == []
    opened.session.moves.place(opened.task("q"), "n1", TaskStatus.ALLOCATED)
    assert verdicts(opened, "p")["n1"] == EXCEEDED
    opened.session.moves.unplace(opened.task("q"))
    assert verdicts(opened, "p")["n1"] == []


def test_a_missing_claim_is_final_on_every_node() -> None:
    off = {"predicate__VolumeZoneEnable": False, "predicate__VolumeBindingEnable": False}
    opened = opened_with(node("n1"), using("p", "gone"), **off)
    said = 'looking up PVC ns/gone: persistentvolumeclaim "gone" not found'
    assert verdicts(opened, "p")["n1"] == [(said, UU)]


def test_the_limits_can_be_switched_off() -> None:
    objects = (node("n1"), *attachable("a"), using("p", "a"), limit(0))
    opened = opened_with(*objects, predicate__NodeVolumeLimitsEnable=False)
    assert verdicts(opened, "p")["n1"] == []


# Volumes as a request: what the actions compare with the node's room.


def asks_for(opened: Opened, name: str = "p") -> int:
    return int(opened.task(name).request.get(f"attachable-volumes-csi-{DRIVER}"))


def test_a_task_asks_for_one_attachment_a_claim() -> None:
    opened = opened_with(node("n1"), *attachable("a"), *attachable("b"), using("p", "a", "b"))
    assert asks_for(opened) == 2
    assert not opened.task("p").best_effort


def test_the_request_follows_claims_volumes_and_classes_that_come_later() -> None:
    opened = opened_with(node("n1"), using("p", "c"))
    engine = opened.engine
    assert asks_for(opened) == 0
    engine.apply([Upserted(claim("c")), Upserted(storage_class("slow", DRIVER))])
    engine.cache.settle()
    assert asks_for(opened) == 1
    engine.apply([Deleted(StorageClass, "uid-slow")])
    engine.cache.settle()
    assert asks_for(opened) == 0
    bound = claim("c", volume_name="pv")
    engine.apply([Upserted(bound), Upserted(volume("pv", csi_driver=DRIVER, csi_handle="h"))])
    engine.cache.settle()
    assert asks_for(opened) == 1
    engine.apply([Deleted(PersistentVolumeClaim, "uid-c")])
    engine.cache.settle()
    assert asks_for(opened) == 0


def test_the_request_of_a_running_pod_follows_too() -> None:
    opened = opened_with(node("n1"), limit(5), using("p", "c", on="n1"))
    opened.engine.apply([Upserted(part) for part in attachable("c")])
    opened.engine.cache.settle()
    assert asks_for(opened) == 1
    assert opened.task("p").status is TaskStatus.RUNNING
    assert opened.engine.cache.table.sum_used().get(f"attachable-volumes-csi-{DRIVER}") == 1


def test_a_claim_whose_volume_is_not_known_counts_by_its_class() -> None:
    bound = claim("c", volume_name="pv")
    opened = opened_with(node("n1"), bound, storage_class("slow", DRIVER), using("p", "c"))
    assert asks_for(opened) == 1


# Zones.

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("on_volume", "on_node", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"disk": "ssd"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({"other": "a"}, {ZONE: "b"}, True),
    ],
)
def test_a_bound_volume_binds_its_pod_to_zone_and_region(
    on_volume: dict[str, str], on_node: dict[str, str], fits: bool
) -> None:
    opened = opened_with(
        node("n1", labels=on_node),
        volume("pv", labels=on_volume),
        claim("c", volume_name="pv"),
        using("p", "c"),
    )
    assert verdicts(opened, "p")["n1"] == ([] if fits else NO_ZONE)


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim("c", volume_name="pv")], 'persistentvolume "pv" not found'),
        (
            [claim("c", storage_class_name=None)],
            "PersistentVolumeClaim had no pv name and storageClass name",
        ),
        ([claim("c")], 'storageclass.storage.k8s.io "slow" not found'),
        (
            [claim("c"), storage_class(wait_for_first_consumer=False)],
            "PersistentVolume had no name",
        ),
    ],
)
def test_what_keeps_the_zone_from_being_known_is_said_for_all_nodes(
    objects: list[Any], said: str
) -> None:
    opened = opened_with(node("n1"), *objects, using("p", "c"))
    assert why_nowhere(opened, "p") == f"plugin VolumeZone pre-predicates failed {said}"


def test_a_claim_that_waits_for_its_consumer_has_no_zone_yet() -> None:
    opened = opened_with(node("n1"), claim("c"), storage_class("slow", DRIVER), using("p", "c"))
    assert verdicts(opened, "p")["n1"] == []


def test_the_zones_can_be_switched_off() -> None:
    opened = opened_with(
        node("n1", labels={ZONE: "b"}),
        volume("pv", labels={ZONE: "a"}),
        claim("c", volume_name="pv"),
        using("p", "c"),
        predicate__VolumeZoneEnable=False,
    )
    assert verdicts(opened, "p")["n1"] == []


def test_pods_on_nodes_whose_claims_are_gone_attach_nothing() -> None:
    opened = opened_with(
        node("n1"),
        using("old", "gone", on="n1"),
        *attachable("a"),
        using("p", "a"),
        replace(limit(1)),
    )
    assert verdicts(opened, "p")["n1"] == []
