"""Watch events that only confirm binds wait, longer while binds are in flight; all others do not."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from pumice.adapters.kubernetes import confirmations
from pumice.adapters.kubernetes.confirmations import BindConfirmations
from pumice.adapters.kubernetes.group_precedence import GroupPrecedence
from pumice.adapters.kubernetes.object_head import HEAD, Head
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.object_store import ObjectStore, WorldEventQueue
from pumice.adapters.kubernetes.resources import PODS
from pumice.adapters.kubernetes.selection import Selection, Source
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ObjectGone, ObjectSeen
from pumice.v1.decision_pb2 import Bind
from tests.adapters.fake_clock import FakeClock
from tests.adapters.kubernetes.objects import pod


class Pods:
    """A store of pods, the binds in flight, and what the runtime is told."""

    def __init__(self) -> None:
        self.clock, self.queue = FakeClock(), WorldEventQueue()
        self.kept = BindConfirmations(self.clock)
        self.store = ObjectStore(
            Source(PODS),
            self.queue,
            Selection(),
            GroupPrecedence(),
            ObjectIndex(),
            Metrics(),
            lambda invalid: None,
            self.kept,
        )
        self.run = asyncio.get_running_loop().create_task(self.kept.run())

    def bind(self, *names: str) -> None:
        for name in names:
            self.kept.begin(Bind(namespace="ns", name=name, uid=f"uid-{name}", node="n1"))

    def show(self, name: str, node: str = "n1", **changes: Any) -> None:
        self.store.upsert(*version(name, node, **changes))

    def told(self) -> list[tuple[str, str]]:
        """The names of pods that the runtime was told of, with their nodes; `gone` has no name."""
        shown = []
        for event in self.queue._events:
            if isinstance(event, ObjectSeen):
                shown.append((event.object.pod.name, event.object.pod.node_name))
            elif isinstance(event, ObjectGone):
                shown.append((event.uid, "gone"))
        return shown


def version(
    name: str, node: str, phase: str = "Pending", **metadata: Any
) -> tuple[Head, msgspec.Raw]:
    body = pod(name, node=node, uid=f"uid-{name}", **metadata)
    body["status"]["phase"] = phase
    raw = json.dumps(body).encode()
    return HEAD.decode(raw), msgspec.Raw(raw)


async def test_a_confirmation_waits_for_a_version_that_says_more() -> None:
    pods = Pods()
    pods.bind("a", "b")
    pods.kept.end()
    pods.kept.end()
    pods.show("a")
    pods.show("b")
    await pods.clock.advance(1.9)
    assert pods.told() == []
    pods.show("b", phase="Running")
    assert pods.told() == [("b", "n1")]
    await pods.clock.advance(0.2)
    assert pods.told() == [("b", "n1"), ("a", "n1")]
    # Later versions do not wait.
    pods.show("a", labels={"version": "2"})
    assert pods.told()[2:] == [("a", "n1")]


async def test_a_confirmation_waits_longer_while_binds_are_in_flight() -> None:
    pods = Pods()
    pods.bind("a", "b")
    pods.show("a")
    pods.kept.end()
    await pods.clock.advance(4.0)
    assert pods.told() == []
    pods.kept.end()
    await pods.clock.advance(0.1)
    assert pods.told() == [("a", "n1")]


async def test_a_version_from_before_the_bind_does_not_end_the_wait() -> None:
    pods = Pods()
    pods.bind("a")
    pods.show("a", node="")
    pods.show("a")
    pods.kept.end()
    assert pods.told() == [("a", "")]
    await pods.clock.advance(2.1)
    assert pods.told() == [("a", ""), ("a", "n1")]


async def test_what_waits_is_told_at_once_when_a_core_needs_it() -> None:
    pods = Pods()
    names = [f"pod-{number}" for number in range(50)]
    pods.bind(*names)
    for name in names:
        pods.show(name)
    pods.kept.release_all()
    assert pods.told() == [(name, "n1") for name in names]


async def test_a_confirmation_does_not_wait_for_ever() -> None:
    pods = Pods()
    pods.bind("a", "b")
    pods.show("a")
    await pods.clock.advance(4.9)
    assert pods.told() == []
    await pods.clock.advance(0.2)
    assert pods.told() == [("a", "n1")]


@pytest.mark.parametrize(
    "changes",
    [
        {"node": "n2"},
        {"node": ""},
        {"phase": "Running"},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
async def test_what_says_more_than_the_bind_is_told_at_once(changes: dict[str, Any]) -> None:
    pods = Pods()
    pods.bind("a", "b")
    pods.show("a")
    pods.show("a", **changes)
    assert [name for name, _ in pods.told()] == ["a"]
    assert not len(pods.kept)
    pods.kept.end()
    pods.kept.end()
    await pods.clock.advance(10.0)
    # The version before it does not come after it.
    assert len(pods.told()) == 1


async def test_the_bind_of_another_pod_is_told_at_once() -> None:
    pods = Pods()
    pods.bind("a")
    pods.show("other")
    assert pods.told() == [("other", "n1")]


async def test_of_several_versions_the_last_is_told_once() -> None:
    pods = Pods()
    pods.bind("a")
    pods.show("a", labels={"version": "1"})
    pods.show("a", labels={"version": "2"})
    pods.kept.end()
    await pods.clock.advance(2.1)
    (event,) = pods.queue._events
    assert isinstance(event, ObjectSeen)
    assert event.object.pod.labels["version"] == "2"


async def test_a_pod_that_is_deleted_is_not_told_as_bound() -> None:
    pods = Pods()
    pods.show("a", node="")
    pods.bind("a")
    pods.show("a")
    pods.store.delete(version("a", "n1")[0])
    pods.kept.end()
    await pods.clock.advance(10.0)
    assert pods.told() == [("a", ""), ("uid-a", "gone")]


async def test_a_new_list_takes_the_place_of_what_waits() -> None:
    pods = Pods()
    pods.bind("a", "b")
    pods.show("a")
    pods.show("b")
    pods.store.begin_list()
    pods.show("a", phase="Running")
    pods.store.end_list("9")
    assert pods.told() == [("a", "n1")]
    pods.kept.end()
    pods.kept.end()
    await pods.clock.advance(10.0)
    # The other pod is not in the list any more.
    assert pods.told() == [("a", "n1")]
    assert not len(pods.kept)


async def test_only_so_many_confirmations_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmations, "_MOST_KEPT", 3)
    monkeypatch.setattr(confirmations, "_MOST_BINDS", 4)
    pods = Pods()
    pods.bind(*"abcdef")
    for name in "abcdef":
        pods.show(name)
    # The first two binds are not remembered, and three confirmations wait.
    assert [name for name, _ in pods.told()] == ["a", "b", "f"]
    assert len(pods.kept) == 3


async def test_a_newer_version_ends_the_wait_of_a_bind_that_is_no_longer_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confirmations, "_MOST_BINDS", 1)
    pods = Pods()
    pods.bind("a")
    pods.show("a")
    pods.bind("b")
    pods.show("a", phase="Running")
    await pods.clock.advance(60)
    assert pods.told() == [("a", "n1")]
    assert not len(pods.kept)
    pods.run.cancel()
