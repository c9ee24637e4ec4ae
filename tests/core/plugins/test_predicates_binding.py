"""Volumes for claims: bound ones, free ones, new ones; and who may have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.cache.settings import CacheSettings
from pumice.core.configuration import Configuration, PluginOptions
from pumice.core.decisions import Bind, VolumeChoice
from pumice.core.deltas import Deleted, OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.model.pod import Pod
from pumice.core.model.selectors import LabelSelector
from pumice.core.model.status import TaskStatus
from pumice.core.model.storage import CsiDriver, CsiStorageCapacity, VolumePhase
from tests.core.builders import GIB, fill, job, node, pod_group, queue
from tests.core.plugins.storage import (
    claim,
    opened_with,
    selecting,
    storage_class,
    using,
    volume,
    where,
)
from tests.core.plugins.verdicts import UU, Verdict, verdicts, why_nowhere

CONFLICT: Verdict = [("node(s) didn't match PersistentVolume's node affinity", UU)]
NOTHING: Verdict = [("node(s) didn't find available persistent volumes to bind", UU)]
NO_SPACE: Verdict = [("node(s) did not have enough free storage", UU)]
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
SSD, HDD = node("n1", labels={"disk": "ssd"}), node("n2", labels={"disk": "hdd"})
DRIVER = "csi.example.com"


# Before nodes are looked at.


@pytest.mark.parametrize(
    ("objects", "ephemeral", "said"),
    [
        ([], False, 'persistentvolumeclaim "c" not found'),
        (
            [],
            True,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "c"',
        ),
        (
            [claim("c", volume_name="pv", phase=VolumePhase.LOST)],
            False,
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
        ),
        (
            [claim("c", terminating=True)],
            False,
            'persistentvolumeclaim "c" is being deleted',
        ),
        (
            [claim("c", owner_uid="somebody")],
            True,
            "PVC ns/c was not created for pod ns/p (pod is not owner)",
        ),
        (
            [claim("c"), storage_class(wait_for_first_consumer=False)],
            False,
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        ([claim("c")], False, "pod has unbound immediate PersistentVolumeClaims"),
        (
            [claim("c", volume_name="pv", bind_completed=False), storage_class()],
            False,
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_a_claim_that_cannot_be_served_anywhere_is_said_once(
    objects: list[Any], ephemeral: bool, said: str
) -> None:
    pods = using("p", "c", ephemeral=ephemeral)
    opened = opened_with(SSD, *objects, pods, predicate__VolumeZoneEnable=False)
    assert why_nowhere(opened, "p") == f"plugin VolumeBinding pre-predicates failed {said}"


def test_an_ephemeral_claim_of_the_pod_itself_is_fine() -> None:
    own = claim("c", owner_uid="uid-p")
    opened = opened_with(SSD, own, storage_class("slow", DRIVER), using("p", "c", ephemeral=True))
    assert verdicts(opened, "p")["n1"] == []


# Bound claims.


def test_a_bound_volume_must_be_reachable() -> None:
    pinned = volume("pv", node_terms=(where("disk", "ssd"),))
    opened = opened_with(SSD, HDD, pinned, claim("c", volume_name="pv"), using("p", "c"))
    assert verdicts(opened, "p") == {"n1": [], "n2": CONFLICT}


def test_a_bound_volume_that_does_not_exist_closes_all_nodes() -> None:
    opened = opened_with(
        SSD, claim("c", volume_name="pv"), using("p", "c"), predicate__VolumeZoneEnable=False
    )
    assert verdicts(opened, "p")["n1"] == [(MISSING, UU)]


def test_the_faults_of_a_node_are_one_reason() -> None:
    opened = opened_with(
        HDD,
        volume("pv", node_terms=(where("disk", "ssd"),)),
        claim("a", volume_name="pv"),
        claim("b"),
        storage_class(),
        using("p", "a", "b"),
    )
    assert verdicts(opened, "p")["n2"] == [(f"{CONFLICT[0][0]}, {NOTHING[0][0]}", UU)]


# Free volumes.


@pytest.mark.parametrize(
    ("fields", "wanted", "found"),
    [
        ({}, {}, True),
        ({"gib": 2}, {}, True),
        ({}, {"gib": 2}, False),
        ({"storage_class_name": "fast"}, {}, False),
        ({"block_mode": True}, {}, False),
        ({"block_mode": True}, {"block_mode": True}, True),
        ({"attributes_class_name": "gold"}, {}, False),
        ({"access_modes": ("RWO", "RWX")}, {"access_modes": ("RWX",)}, True),
        ({}, {"access_modes": ("RWX",)}, False),
        ({"phase": VolumePhase.RELEASED}, {}, False),
        ({"terminating": True}, {}, False),
        ({"claim_key": "ns/other"}, {}, False),
        ({"claim_key": "ns/c"}, {}, True),
        ({"claim_key": "ns/c", "claim_uid": "uid-c", "phase": VolumePhase.BOUND}, {}, True),
        ({"claim_key": "ns/c", "claim_uid": "another"}, {}, False),
        ({"labels": {"tier": "a"}}, {"selector": selecting("tier", "a")}, True),
        ({"labels": {"tier": "b"}}, {"selector": selecting("tier", "a")}, False),
        ({"node_terms": (where("disk", "ssd"),)}, {}, True),
        ({"node_terms": (where("disk", "hdd"),)}, {}, False),
    ],
)
def test_a_claim_takes_a_volume_that_suits_it(
    fields: dict[str, Any], wanted: dict[str, Any], found: bool
) -> None:
    objects = volume("pv", **fields), claim("c", **wanted), storage_class()
    opened = opened_with(SSD, *objects, using("p", "c"))
    assert verdicts(opened, "p")["n1"] == ([] if found else NOTHING)


def chosen(*objects: Any, on: str = "n1", pod_: Pod | None = None) -> dict[str, str]:
    """What the claims of the pod get on the node; empty: a new volume."""
    opened = opened_with(SSD, HDD, *objects, pod_ or using("p", "c"))
    assert verdicts(opened, "p")[on] == []
    assert opened.session.moves.place(opened.task("p"), on, TaskStatus.ALLOCATED) == []
    return {c.claim: c.volume_name for c in opened.session.outbox._volumes.get("uid-p", ())}


def test_the_smallest_volume_wins_and_among_equals_the_name() -> None:
    volumes = volume("big", 4), volume("pv2", 2), volume("pv1", 2)
    assert chosen(*volumes, claim("c"), storage_class()) == {"c": "pv1"}


def test_a_volume_set_aside_for_the_claim_wins_over_a_smaller_one() -> None:
    volumes = volume("small"), volume("mine", 4, claim_key="ns/c")
    assert chosen(*volumes, claim("c"), storage_class()) == {"c": "mine"}


def test_a_volume_set_aside_elsewhere_leaves_the_node_to_make_one() -> None:
    volumes = volume("small"), volume("mine", claim_key="ns/c", node_terms=(where("disk", "hdd"),))
    assert chosen(*volumes, claim("c"), storage_class("slow", DRIVER)) == {"c": ""}


def test_the_smallest_claim_chooses_first_and_no_volume_is_given_twice() -> None:
    volumes = volume("pv1", 1), volume("pv2", 2)
    claims = claim("large", 1), claim("small", 0)
    found = chosen(*volumes, *claims, storage_class(), pod_=using("p", "large", "small"))
    assert found == {"small": "pv1", "large": "pv2"}


def test_a_pod_whose_claims_are_bound_takes_nothing() -> None:
    assert chosen(volume("pv"), claim("c", volume_name="pv")) == {}


# New volumes.


def test_without_a_provisioner_no_volume_is_made() -> None:
    opened = opened_with(SSD, claim("c"), storage_class(), using("p", "c"))
    assert verdicts(opened, "p")["n1"] == NOTHING


def test_a_class_says_where_its_volumes_can_be() -> None:
    made = storage_class("slow", DRIVER, allowed_topologies=(where("disk", "ssd"),))
    opened = opened_with(SSD, HDD, claim("c"), made, using("p", "c"))
    assert verdicts(opened, "p") == {"n1": [], "n2": NOTHING}


def test_a_claim_with_a_chosen_node_goes_nowhere_else() -> None:
    opened = opened_with(
        SSD, HDD, claim("c", selected_node="n2"), storage_class("slow", DRIVER), using("p", "c")
    )
    assert verdicts(opened, "p") == {"n1": NOTHING, "n2": []}


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"capacity_bytes": 2 * GIB, "node_selector": LabelSelector()}, True),
        ({"capacity_bytes": GIB, "node_selector": LabelSelector()}, False),
        ({"capacity_bytes": 2 * GIB, "node_selector": selecting("disk", "ssd")}, True),
        ({"capacity_bytes": 2 * GIB, "node_selector": selecting("disk", "hdd")}, False),
        ({"capacity_bytes": 2 * GIB}, False),
        ({"node_selector": LabelSelector()}, False),
        (
            {
                "capacity_bytes": 9 * GIB,
                "maximum_volume_bytes": GIB,
                "node_selector": LabelSelector(),
            },
            False,
        ),
        (
            {
                "capacity_bytes": 9 * GIB,
                "storage_class_name": "other",
                "node_selector": LabelSelector(),
            },
            False,
        ),
    ],
)
def test_a_driver_that_publishes_its_room_must_have_enough(
    fields: dict[str, Any], fits: bool
) -> None:
    room = CsiStorageCapacity(
        "uid-r", "kube-system", "r", **{"storage_class_name": "slow", **fields}
    )
    objects = SSD, claim("c", 2), storage_class("slow", DRIVER), room, using("p", "c")
    opened = opened_with(*objects, CsiDriver("uid-d", DRIVER, True))
    assert verdicts(opened, "p")["n1"] == ([] if fits else NO_SPACE)
    # A driver that keeps its room to itself is believed.
    assert verdicts(opened_with(*objects, CsiDriver("uid-d", DRIVER)), "p")["n1"] == []


def test_binding_can_be_switched_off() -> None:
    opened = opened_with(
        SSD, claim("c"), storage_class(), using("p", "c"), predicate__VolumeBindingEnable=False
    )
    assert verdicts(opened, "p")["n1"] == []


# What the session takes.


def two_claims() -> list[Any]:
    return [volume("pv"), claim("a"), claim("b"), storage_class(), using("p", "a"), using("q", "b")]


def test_a_volume_taken_by_a_placement_is_not_there_for_the_next_task() -> None:
    opened = opened_with(SSD, *two_claims())
    opened.session.moves.place(opened.task("p"), "n1", TaskStatus.ALLOCATED)
    assert verdicts(opened, "q")["n1"] == NOTHING


def test_undoing_the_placement_gives_the_volume_back() -> None:
    opened = opened_with(SSD, *two_claims())
    statement = opened.session.statement()
    assert statement.allocate(opened.task("p"), "n1")
    statement.discard()
    assert verdicts(opened, "q")["n1"] == []
    assert opened.session.outbox._volumes == {}


def test_a_task_that_waits_for_room_takes_no_volume() -> None:
    opened = opened_with(SSD, *two_claims())
    opened.session.moves.place(opened.task("p"), "n1", TaskStatus.PIPELINED)
    assert verdicts(opened, "q")["n1"] == []


def test_a_placement_whose_volumes_are_gone_is_refused_and_leaves_no_trace() -> None:
    opened = opened_with(SSD, *two_claims())
    table = opened.session.table
    opened.session.moves.place(opened.task("p"), "n1", TaskStatus.ALLOCATED)
    pods = table.kube_pods.tolist()
    assert not opened.session.statement().allocate(opened.task("q"), "n1")
    assert table.kube_pods.tolist() == pods
    assert opened.task("q").status is TaskStatus.PENDING


def test_pods_that_share_a_claim_follow_it_to_its_node() -> None:
    opened = opened_with(
        SSD, HDD, claim("c"), storage_class("slow", DRIVER), using("p", "c"), using("q", "c")
    )
    opened.session.moves.place(opened.task("p"), "n2", TaskStatus.ALLOCATED)
    assert verdicts(opened, "q") == {"n1": NOTHING, "n2": []}


# Over sessions.


def engine_with(*objects: Any) -> Engine:
    names = ("priority", "gang", "predicates", "nodeorder")
    configuration = Configuration(("allocate",), (tuple(PluginOptions(n) for n in names),))
    # Volcano counts volumes of every class by its provisioner, also of those that make none.
    ignored = (DRIVER, "kubernetes.io/no-provisioner")
    settings = replace(CacheSettings(), ignored_provisioners=ignored)
    return fill(Engine(configuration, settings), queue(), *objects)


def binds(engine: Engine, now_ns: int) -> dict[str, Bind]:
    decisions = engine.schedule(now_ns).decisions
    return {d.name: d for d in decisions if isinstance(d, Bind)}


def test_a_bind_carries_the_choice_of_volumes() -> None:
    made = claim("new", storage_class_name="fast")
    objects = [volume("pv"), claim("old"), made, storage_class(), storage_class("fast", DRIVER)]
    engine = engine_with(SSD, pod_group("g"), *objects, using("p", "old", "new"))
    assert set(binds(engine, 1)["p"].volumes) == {
        VolumeChoice("old", "pv"),
        VolumeChoice("new", ""),
    }


def test_a_decided_volume_stays_taken_until_the_cluster_shows_it() -> None:
    engine = engine_with(SSD, pod_group("g", 1), *two_claims())
    first = binds(engine, 1)
    assert len(first) == 1
    assert binds(engine, 2) == {}
    taken = replace(volume("pv"), claim_key="ns/a", claim_uid="uid-a", phase=VolumePhase.BOUND)
    engine.apply([Upserted(taken)])
    assert engine.cache.storage.reservations.get("pv") is None
    assert binds(engine, 3) == {}


def test_a_bind_that_failed_gives_its_volumes_back() -> None:
    engine = engine_with(SSD, pod_group("g", 1), *two_claims())
    (bind,) = binds(engine, 1).values()
    engine.apply([OutcomeReported(bind.id, OutcomeCode.FAILED)])
    assert engine.cache.storage.reservations.get("pv") is None
    assert len(binds(engine, 2)) == 1


def test_a_pod_that_is_gone_gives_its_volumes_back() -> None:
    engine = engine_with(SSD, pod_group("g", 1), *two_claims())
    (bind,) = binds(engine, 1).values()
    engine.apply([Deleted(Pod, bind.uid)])
    assert len(binds(engine, 2)) == 1


def test_what_a_gang_that_stayed_short_had_taken_is_free_in_the_next_session() -> None:
    engine = engine_with(SSD, pod_group("g", 2), *two_claims(), *job("late", 1))
    assert set(binds(engine, 1)) == {"late-0"}
    assert engine.cache.storage.reservations.get("pv") is None


def test_a_pod_that_another_scheduler_bound_elsewhere_gives_its_volumes_back() -> None:
    engine = engine_with(SSD, HDD, pod_group("g", 1), *two_claims())
    (bind,) = binds(engine, 1).values()
    other = "n2" if bind.node == "n1" else "n1"
    pod = engine.cache.tasks[bind.uid].pod
    engine.apply([Upserted(replace(pod, node_name=other))])
    assert engine.cache.storage.reservations.get("pv") is None


def test_a_pod_that_arrives_where_it_was_sent_keeps_its_volumes() -> None:
    engine = engine_with(SSD, pod_group("g", 1), *two_claims())
    (bind,) = binds(engine, 1).values()
    pod = engine.cache.tasks[bind.uid].pod
    engine.apply([Upserted(replace(pod, node_name="n1"))])
    assert engine.cache.storage.reservations.get("pv") is not None


def test_other_settings_do_not_free_what_was_decided() -> None:
    engine = engine_with(SSD, pod_group("g", 1), *two_claims())
    assert len(binds(engine, 1)) == 1
    engine.change_settings(replace(engine.cache.settings, scheduler_names=("volcano", "other")))
    assert engine.cache.storage.reservations.get("pv") is not None
    assert binds(engine, 2) == {}
