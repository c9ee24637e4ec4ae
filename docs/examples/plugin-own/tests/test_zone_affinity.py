"""Tests the plugin in a real engine."""

from __future__ import annotations

import pytest
from pumice_zone_affinity import ZoneAffinityPlugin

from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind, SessionResult
from pumice.core.deltas import ClusterObject, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroup, Queue
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase, PodSpec
from pumice.core.registry import Registry

ZONE = "topology.kubernetes.io/zone"


def schedule(pods: list[Pod], **arguments: object) -> SessionResult:
    """Runs a session with four nodes of two CPUs in two zones, and one job with a minimum of one pod."""
    registry = Registry([ZoneAffinityPlugin])
    plugin = {
        "name": "zone-affinity",
        "arguments": {f"zone-affinity.{key}": value for key, value in arguments.items()},
    }
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, plugin]}]}
    engine = Engine(read_configuration(data, registry.catalog()), registry=registry)
    offered = (("cpu", 2000), ("memory", 2**30), ("pods", 10))
    nodes = [
        Node(f"uid-{name}", name, labels={ZONE: zone}, allocatable=offered)
        for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))
    ]
    group = PodGroup("uid-group", "ns", "job", queue="default", min_member=1)
    objects: list[ClusterObject] = [Queue("uid-queue", "default"), *nodes, group, *pods]
    engine.apply([Upserted(item) for item in objects])
    return engine.schedule(now_ns=0)


def pod(name: str, node: str = "") -> Pod:
    spec = PodSpec((("cpu", 1000), ("pods", 1)), scheduler_name="volcano")
    phase = PodPhase.RUNNING if node else PodPhase.PENDING
    return Pod(f"uid-{name}", "ns", name, spec, phase=phase, node_name=node, group_name="job")


def nodes_of(result: SessionResult) -> list[str]:
    assert result.faults == ()
    return [decision.node for decision in result.decisions if isinstance(decision, Bind)]


def test_pods_go_where_the_job_already_is() -> None:
    assert nodes_of(schedule([pod("p0", "b2"), pod("p1")])) == ["b1"]


def test_the_first_pod_goes_anywhere() -> None:
    assert nodes_of(schedule([pod("p0")])) == ["a1"]


def test_a_full_zone_is_left_unless_the_plugin_is_strict() -> None:
    pods = [pod("p0", "b1"), *(pod(f"p{i}") for i in range(1, 6))]
    assert sorted(nodes_of(schedule(pods))) == ["a1", "a1", "b1", "b2", "b2"]
    result = schedule(pods, strict=True)
    assert sorted(nodes_of(result)) == ["b1", "b2", "b2"]
    reasons = [reason for wait in result.waits for reason in wait.reasons]
    assert "node(s) outside the zone of the job" in {
        count.reason for reason in reasons for count in reason.nodes
    }


@pytest.mark.parametrize(("weight", "node"), [(0, "a1"), (1, "b2")])
def test_the_weight_scales_the_score(weight: int, node: str) -> None:
    assert nodes_of(schedule([pod("p0", "b1"), pod("p2", "b1"), pod("p1")], weight=weight)) == [
        node
    ]
