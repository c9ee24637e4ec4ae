"""Which nodes a scheduler may choose between at will."""

import pytest

from pumice.adapters.shadow.node_equivalence import NodeEquivalence
from pumice.v1.node_pb2 import Node
from pumice.v1.pod_pb2 import Pod, PodSpec
from pumice.v1.selector_pb2 import Taint

RECENT = 3.0


def node(name: str, **fields: object) -> Node:
    labels = {"kubernetes.io/hostname": name, "zone": "a"}
    made = Node(uid=f"uid-{name}", name=name, labels=labels, allocatable={"cpu": 4000})
    made.MergeFrom(Node(**fields))  # type: ignore[arg-type]
    return made


def pod(name: str, node_name: str, cpu: int = 1000) -> Pod:
    spec = PodSpec(requests={"cpu": cpu})
    return Pod(uid=name, namespace="ns", name=name, node_name=node_name, spec=spec)


@pytest.fixture
def nodes() -> NodeEquivalence:
    made = NodeEquivalence(RECENT)
    made.note_node(node("n1"))
    made.note_node(node("n2"))
    return made


def are_equal(nodes: NodeEquivalence, now: float = 100.0) -> bool:
    return nodes.are_equivalent("n1", "n2", "ns/job", now)


def test_equal_nodes_are_equivalent(nodes: NodeEquivalence) -> None:
    assert are_equal(nodes)
    assert not nodes.are_equivalent("n1", "unknown", "ns/job", 100.0)


@pytest.mark.parametrize(
    "other",
    [
        node("n2", labels={"zone": "b"}),
        node("n2", taints=[Taint(key="gpu")]),
        node("n2", unschedulable=True),
        node("n2", allocatable={"memory": 1}),
    ],
)
def test_a_difference_that_scheduling_reads_counts(nodes: NodeEquivalence, other: Node) -> None:
    nodes.note_node(other)
    assert not are_equal(nodes)


def test_used_amounts_count(nodes: NodeEquivalence) -> None:
    nodes.note_pod(pod("p", "n1"), "ns/other", 1.0)
    assert not are_equal(nodes)
    nodes.note_pod(pod("q", "n2"), "ns/third", 1.0)
    assert are_equal(nodes)
    nodes.forget_pod("q")
    assert not are_equal(nodes)


def test_pods_of_the_job_and_recent_ones_do_not_count(nodes: NodeEquivalence) -> None:
    nodes.note_pod(pod("p", "n1"), "ns/job", 1.0)
    assert are_equal(nodes)
    nodes.note_pod(pod("q", "n1"), "ns/other", 99.0)
    assert are_equal(nodes)
    assert not are_equal(nodes, now=99.0 + RECENT + 1)


def test_nothing_is_left_of_what_is_gone(nodes: NodeEquivalence) -> None:
    nodes.note_pod(pod("p", "n1"), "ns/job", 1.0)
    nodes.forget_pod("p")
    nodes.forget_node("uid-n1")
    nodes.forget_node("uid-n2")
    assert not nodes._nodes
    assert not nodes._node_of_pod
    assert not nodes._names
