"""Tasks: a pod's status, the sets that are counted by it, and what else is read off a pod."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pumice.core.model.pod import Pod, PodPhase, PodResourceClaim, PodSpec
from pumice.core.model.status import COMPLETED, EVICTABLE, HOLDS_RESOURCES, TaskStatus, status_of
from pumice.patterns.golang import parse_int
from tests.core.builders import pod, pod_group, queue
from tests.core.plugins.opened import Opened, asking

S = TaskStatus


@pytest.mark.parametrize(
    ("phase", "terminating", "node_name", "status"),
    [
        (PodPhase.RUNNING, False, "n1", S.RUNNING),
        (PodPhase.RUNNING, True, "n1", S.RELEASING),
        (PodPhase.PENDING, True, "", S.RELEASING),  # even without a node
        (PodPhase.PENDING, True, "n1", S.RELEASING),
        (PodPhase.PENDING, False, "", S.PENDING),
        (PodPhase.PENDING, False, "n1", S.BOUND),
        (PodPhase.SUCCEEDED, False, "n1", S.SUCCEEDED),
        (PodPhase.SUCCEEDED, True, "n1", S.SUCCEEDED),  # deletion does not matter any more
        (PodPhase.FAILED, True, "n1", S.FAILED),
        (PodPhase.UNKNOWN, False, "n1", S.UNKNOWN),
        (PodPhase.UNKNOWN, True, "", S.UNKNOWN),
    ],
)
def test_a_pods_phase_gives_the_status(
    phase: PodPhase, terminating: bool, node_name: str, status: TaskStatus
) -> None:
    found = Pod("u", "ns", "p", phase=phase, terminating=terminating, node_name=node_name)
    assert status_of(found) is status


def test_the_bits_of_statuses_are_volcanos() -> None:
    words = "Pending Allocated Pipelined Binding Bound Running Releasing Succeeded Failed Unknown"
    assert [(s.word, int(s)) for s in TaskStatus] == [
        (word, 1 << bit) for bit, word in enumerate(words.split())
    ]


def test_sets_of_statuses() -> None:
    assert {S.BOUND, S.BINDING, S.RUNNING, S.ALLOCATED} == HOLDS_RESOURCES
    assert {S.FAILED, S.SUCCEEDED} == COMPLETED
    assert {S.BOUND, S.RUNNING} == EVICTABLE


@pytest.mark.parametrize(
    ("asked", "best_effort"),
    [
        ((), True),  # only its place among the pods
        ((("cpu", 0), ("memory", 0)), True),
        ((("cpu", 1),), False),
        ((("ephemeral-storage", 1000),), False),
        ((("attachable-volumes-csi-d", 1),), False),
        ((("nvidia.com/gpu", 1000),), False),
    ],
)
def test_best_effort_is_who_asks_for_nothing_but_a_place(
    asked: tuple[tuple[str, int], ...], best_effort: bool
) -> None:
    opened = Opened(queue(), pod_group("g"), asking(pod("p", "g"), asked), plugins=[])
    assert opened.task("p").best_effort is best_effort


def test_a_pod_that_only_claims_a_device_is_best_effort() -> None:
    spec = PodSpec((("pods", 1),), resource_claims=(PodResourceClaim("gpu", "one"),))
    claiming = replace(pod("p", "g"), spec=replace(spec, scheduler_name="volcano"))
    opened = Opened(queue(), pod_group("g"), claiming, plugins=[])
    assert opened.task("p").best_effort


def test_pods_that_come_together_use_their_devices_as_pods_that_come_alone() -> None:
    spec = PodSpec((("pods", 1),), resource_claims=(PodResourceClaim("gpu", "one"),))
    spec = replace(spec, scheduler_name="volcano")
    pods = [replace(pod(name, "g"), spec=spec) for name in ("a", "b", "c")]
    cache = Opened(queue(), pod_group("g"), pods[0], plugins=[]).engine.cache
    assert not cache.pod_updates.upsert_all(pods[1:])
    users = cache.devices.users
    assert sorted(task.name for task in users.values()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("job-worker-7", 7),
        ("a-b-c-10", 10),
        ("job-7", None),  # two parts only
        ("job-worker-x", None),
        ("job-worker-", None),
        ("job-worker-1_0", None),  # Python would take it for a number
        ("job-worker-99999999999999999999", None),  # more than 64 bits
    ],
)
def test_the_index_of_a_pod_is_the_number_at_the_end_of_a_name_of_three_parts(
    name: str, index: int | None
) -> None:
    opened = Opened(queue(), pod_group("g"), pod(name, "g"), plugins=[])
    assert opened.task(name).pod_index == index


@pytest.mark.parametrize("text", ["", "1_0", " 1", "1\n", "٣", "0x1", "1.0", str(2**63)])
def test_a_text_that_go_would_not_read_as_an_integer_is_none(text: str) -> None:
    assert parse_int(text) is None


def test_integers_are_read_with_their_sign() -> None:
    assert [parse_int(t) for t in ("7", "+7", "-7", "007", str(-(2**63)))] == [
        7,
        7,
        -7,
        7,
        -(2**63),
    ]
