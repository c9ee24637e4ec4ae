"""Claims that are not bound yet, counted against limits of drivers as Volcano counts them."""

from __future__ import annotations

from dataclasses import replace

from pumice.core.cache.settings import CacheSettings
from pumice.core.configuration import Configuration, PluginOptions
from pumice.core.decisions import Bind
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.storage import CsiNode
from tests.core.builders import fill, node, pod_group, queue
from tests.core.plugins.storage import claim, storage_class, using, volume

LOCAL = "kubernetes.io/no-provisioner"
DRIVER = "csi.example.com"


def said(*objects: ClusterObject, ignored: tuple[str, ...] = ()) -> list[str]:
    """Where the pod goes, or what nodes have against it."""
    names = ("priority", "gang", "predicates")
    configuration = Configuration(("allocate",), (tuple(PluginOptions(n) for n in names),))
    settings = replace(CacheSettings(), ignored_provisioners=ignored)
    engine = Engine(configuration, settings)
    fill(engine, queue(), node("n1"), pod_group("g"), *objects, using("p", "c"))
    result = engine.schedule(1)
    reasons = [r for wait in result.waits for r in wait.reasons]
    refusals = [r.nodes for r in reasons if r.code is ReasonCode.NO_NODE_FITS]
    places = [decision.node for decision in result.decisions if isinstance(decision, Bind)]
    return places + [count.reason for counts in refusals for count in counts]


def test_an_unbound_claim_of_a_class_that_makes_no_volumes_fits_nowhere_unless_ignored() -> None:
    objects = (claim("c"), volume("pv"), storage_class())
    assert said(*objects) == ["Insufficient attachable-volumes-csi-kubernetes.io-no-provisioner"]
    assert said(*objects, ignored=(LOCAL,)) == ["n1"]


def test_a_bound_claim_of_such_a_class_counts_nothing() -> None:
    assert said(claim("c", volume_name="pv"), volume("pv"), storage_class()) == ["n1"]


def test_a_driver_counts_where_a_node_has_it() -> None:
    objects = (claim("c", storage_class_name="fast"), storage_class("fast", DRIVER))
    assert said(*objects) == [f"Insufficient attachable-volumes-csi-{DRIVER}"]
    assert said(*objects, CsiNode("n1", "n1", driver_limits=((DRIVER, 1),))) == ["n1"]
    # A driver without a limit of its own is never short.
    assert said(*objects, CsiNode("n1", "n1", driver_limits=((DRIVER, -1),))) == ["n1"]
