"""Namespaces that are being deleted: nothing is bound or written there, and nobody is alarmed."""

from collections.abc import Callable
from typing import Any

import pytest

from pumice.adapters.kubernetes.errors import MissingRightsError, NamespaceTerminatingError
from pumice.adapters.kubernetes.refusals import failure
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ApplyCode
from pumice.v1 import status_pb2
from pumice.v1.object_pb2 import KIND_POD
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.adapters.kubernetes.objects import order, pod

Watched = Callable[..., Cluster]
EVENT = status_pb2.Event(kind=KIND_POD, namespace="ns", name="p", uid="u", reason="R")


def namespace(uid: str = "first", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "ns", "uid": uid, **metadata}}


def terminate(api: FakeApi) -> None:
    """As a server does it: creations in the namespace are refused from now on."""
    api.terminating.add("ns")
    api.put("namespaces", namespace(deletionTimestamp="2026-11-01T00:00:00Z"))


def test_the_cause_of_a_refusal_is_compared_and_not_its_text() -> None:
    cause = b'{"reason": "NamespaceTerminating", "field": "metadata.namespace"}'
    body = b'{"message": "no", "reason": "Forbidden", "details": {"causes": [' + cause + b"]}}"
    assert isinstance(failure(403, body), NamespaceTerminatingError)
    # A user or object of that name is no namespace that is being terminated.
    text = b'{"message": "User \\"being terminated\\" cannot list", "reason": "Forbidden"}'
    assert isinstance(failure(403, text), MissingRightsError)


async def test_pods_without_a_node_go_when_their_namespace_terminates(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.put("namespaces", namespace())
    fake_api.put("pods", pod("waits"))
    fake_api.put("pods", pod("runs", node="n1"))
    cluster = watched()
    await until(lambda: cluster.synced)
    assert cluster.names("pod") == ["runs", "waits"]
    terminate(fake_api)
    await until(lambda: cluster.names("pod") == ["runs"])
    fake_api.put("pods", pod("waits", labels={"changed": "yes"}))
    fake_api.put("pods", pod("runs", node="n1", labels={"changed": "yes"}))
    await until(lambda: any(o.pod.labels.get("changed") for o in cluster.objects.values()))
    assert cluster.names("pod") == ["runs"]
    assert (await cluster.world.read_pod("ns", "waits")).object is None
    assert (await cluster.world.read_pod("ns", "runs")).object is not None


async def test_pods_of_a_new_namespace_of_the_same_name_are_announced(
    fake_api: FakeApi, watched: Watched
) -> None:
    fake_api.put("namespaces", namespace())
    cluster = watched()
    await until(lambda: cluster.synced)
    terminate(fake_api)
    await until(lambda: "ns" in cluster.world._index.terminating)
    # The pod of the new namespace is seen before the end of the old namespace is.
    fake_api.put("pods", pod("new"))
    fake_api.put("pods", pod("marker", node="n1"))
    await until(lambda: cluster.names("pod") == ["marker"])
    fake_api.remove("namespaces", "", "ns")
    fake_api.put("namespaces", namespace("second"))
    await until(lambda: cluster.names("pod") == ["marker", "new"])


async def test_a_bind_in_a_terminating_namespace_waits_for_the_watch_and_then_ends(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    fake_api.put("namespaces", namespace())
    uid = fake_api.put("pods", pod("p"))["metadata"]["uid"]
    cluster = watched()
    await until(lambda: cluster.synced)
    fake_api.terminating.add("ns")
    result = await cluster.world.binder.bind(order(uid))
    assert result.code is ApplyCode.WAITING
    assert result.retry_after_seconds >= 1
    terminate(fake_api)
    await until(lambda: "ns" in cluster.world._index.terminating)
    assert (await cluster.world.binder.bind(order(uid))).code is ApplyCode.NOT_FOUND
    assert metrics.counted("terminating_namespaces", call="bind") == 2


async def test_events_in_a_terminating_namespace_are_counted_and_quiet(
    fake_api: FakeApi, watched: Watched, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    fake_api.put("namespaces", namespace())
    cluster = watched()
    await until(lambda: cluster.synced)
    updater = cluster.world.status_updater
    fake_api.terminating.add("ns")
    assert (await updater.write_event(EVENT)).code is ApplyCode.DONE
    terminate(fake_api)
    await until(lambda: "ns" in cluster.world._index.terminating)
    tried = len(fake_api.made("POST", "/events"))
    for _ in range(100):
        assert (await updater.write_event(EVENT)).code is ApplyCode.DONE
    assert len(fake_api.made("POST", "/events")) == tried == 1
    assert metrics.counted("dropped_events", cause="namespace terminating") == 101
    assert not [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")]


async def test_an_event_in_a_namespace_that_is_gone_is_dropped(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    fake_api.missing_namespaces.add("ns")
    assert (await watched().world.status_updater.write_event(EVENT)).code is ApplyCode.DONE
    assert metrics.counted("dropped_events", cause="namespace gone") == 1
