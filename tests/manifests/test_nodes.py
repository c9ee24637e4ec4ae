"""Nodes."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.v1 import selector_pb2
from tests.manifests.manifest import manifest, problem_of, to_node


def node(body: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return manifest("v1", "Node", body, **metadata)


def test_a_node_publishes_what_it_has() -> None:
    found = to_node(
        node(
            {
                "spec": {
                    "unschedulable": True,
                    "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}],
                },
                "status": {
                    "allocatable": {
                        "cpu": "3920m",
                        "memory": "8Gi",
                        "pods": "110",
                        "ephemeral-storage": "10Gi",
                        "nvidia.com/gpu": "8",
                        "unknown": "1",
                    },
                    "capacity": {"cpu": 4},
                    "images": [{"names": ["a:1", "a@sha256:x"], "sizeBytes": 123}],
                },
            },
            name="n1",
            uid="u",
            labels={"zone": "a"},
            annotations={"volcano.sh/offline-job-evicting": "true", "other": "x"},
            creationTimestamp="1970-01-01T00:00:01Z",
        )
    )
    assert (found.uid, found.name, found.creation_time.ToNanoseconds()) == ("u", "n1", 10**9)
    assert dict(found.allocatable) == {
        "cpu": 3920,
        "memory": 8 * 2**30,
        "pods": 110,
        "ephemeral-storage": 10 * 2**30,
        "nvidia.com/gpu": 8000,
    }
    assert dict(found.capacity) == {"cpu": 4000}
    assert dict(found.labels) == {"zone": "a"}
    assert dict(found.annotations) == {"volcano.sh/offline-job-evicting": "true"}
    assert found.unschedulable
    assert list(found.taints) == [
        selector_pb2.Taint(key="k", value="v", effect=selector_pb2.TAINT_EFFECT_NO_EXECUTE)
    ]
    (image,) = found.images
    assert (list(image.names), image.size_bytes) == (["a:1", "a@sha256:x"], 123)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2000", 2000), ("1500.9", 1500), ("1e3", 1000), ("lots", 0), ("", 0), ("-5", 0),
     ("1e300", 0), ("1_000", 0)],
)  # fmt: skip
def test_oversubscription_is_what_volcanos_agent_says(text: str, amount: int) -> None:
    found = to_node(
        node(
            annotations={
                "volcano.sh/oversubscription-cpu": text,
                "volcano.sh/oversubscription-memory": text,
            }
        )
    )
    assert found.oversubscription_milli_cpu == amount
    assert found.oversubscription_memory_bytes == amount


def test_a_node_without_a_uid_is_known_by_its_name() -> None:
    assert to_node(node(name="n1")).uid == "Node/n1"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"status": {"allocatable": {"cpu": "-4"}}},
         "Node x: status.allocatable[cpu]: -4 is negative; allowed: zero or more"),
        ({"status": {"capacity": {"memory": "10E"}}},
         "Node x: status.capacity[memory]: is too large; "
         "allowed: an amount that fits in 64 bits"),
        ({"spec": {"taints": [{"key": "a", "effect": ""}]}},
         "Node x: spec.taints[0].effect: is missing; "
         "allowed: NoSchedule, PreferNoSchedule, NoExecute"),
        ({"spec": {"taints": [{"effect": "NoSchedule"}]}},
         "Node x: spec.taints[0].key: is missing"),
        ({"spec": {"unschedulable": "yes"}},
         "Node x: spec.unschedulable: expected bool, got str"),
    ],
)  # fmt: skip
def test_bad_nodes_are_set_aside_with_one_line(body: dict[str, Any], problem: str) -> None:
    assert problem_of(node(body)) == problem
