"""Writes for which a right is missing: few are sent, and all of them once the right is granted."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from pumice.adapters.kubernetes.errors import (
    ApiError,
    KubernetesError,
    LostAnswerError,
    MissingRightsError,
    WithheldError,
)
from pumice.adapters.kubernetes.missing_rights import MOST_NAMESPACES, REFUSALS, GuardedCalls
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ApplyCode
from pumice.v1.status_pb2 import PodConditionChange, StatusChange
from tests.adapters.fake_clock import FakeClock, until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble

POD = "/api/v1/namespaces/{}/pods/{}/status"


def refusal(namespace: str, verb: str = "patch", resource: str = "pods/status") -> str:
    return (
        f'pods "p" is forbidden: User "pumice" cannot {verb} resource "{resource}"'
        f' in API group "" in the namespace "{namespace}"'
    )


class Bench:
    """Calls of many objects, and an API server that lacks rights in some namespaces."""

    def __init__(self) -> None:
        self.clock, self.metrics = FakeClock(), Metrics()
        self.calls = GuardedCalls(self, self.clock, random.Random(1), self.metrics)
        self.sent: list[str] = []
        self.forbidden: set[str] = set()
        self.error: KubernetesError | None = None

    async def call(self, method: str, path: str, body: bytes = b"", **_: Any) -> bytes:
        namespace = path.split("/")[4]
        self.sent.append(path)
        if namespace in self.forbidden:
            raise MissingRightsError(refusal(namespace))
        if self.error is not None:
            raise self.error
        return b""

    async def write(self, namespace: str = "a", name: str = "p", method: str = "PATCH") -> str:
        try:
            await self.calls.call(method, POD.format(namespace, name))
        except WithheldError:
            return "withheld"
        except KubernetesError:
            return "refused"
        return "done"

    async def write_for(self, seconds: int, *namespaces: str) -> int:
        """Writes thirty statuses per second and namespace; returns how many were sent."""
        before = len(self.sent)
        for _ in range(seconds * 10):
            for namespace in namespaces:
                for number in range(3):
                    await self.write(namespace, str(number))
            await self.clock.advance(0.1)
        return len(self.sent) - before


async def test_after_some_refusals_few_calls_are_sent() -> None:
    bench = Bench()
    bench.forbidden = {"a"}
    assert [await bench.write() for _ in range(REFUSALS + 1)] == ["refused"] * REFUSALS + [
        "withheld"
    ]
    assert await bench.write_for(60, "a") <= 10
    # The delay has grown to its limit.
    assert 1 <= await bench.write_for(60, "a") <= 4


async def test_a_granted_right_releases_all_calls() -> None:
    bench = Bench()
    bench.forbidden = {"a", "b", "c"}
    await bench.write_for(60, "a", "b", "c")
    assert bench.metrics.registry.get_sample_value(
        "pumice_adapter_missing_rights", {"right": "patch on pods/status"}
    ) == len(bench.forbidden)
    bench.forbidden = set()
    await bench.write_for(31, "a")
    assert [await bench.write(one) for one in "abc"] == ["done"] * 3
    assert b"missing_rights{" not in bench.metrics.render()


async def test_other_namespaces_resources_and_verbs_are_not_withheld() -> None:
    bench = Bench()
    bench.forbidden = {"a"}
    await bench.write_for(1, "a")
    assert await bench.write("b") == "done"
    assert await bench.write("a") == "withheld"
    assert await bench.write("a", method="GET") == "refused"
    with pytest.raises(MissingRightsError):
        await bench.calls.call("POST", "/api/v1/namespaces/a/events")


async def test_a_right_that_many_namespaces_lack_costs_few_calls() -> None:
    bench = Bench()
    names = [f"n{number}" for number in range(100)]
    bench.forbidden = set(names)
    for name in names * (REFUSALS + 1):
        await bench.write(name)
    before = len(bench.sent)
    for _ in range(1000):
        for name in names:
            await bench.write(name)
        await bench.clock.advance(0.1)
    # In 100 s.
    assert len(bench.sent) - before <= 1000
    assert {path.split("/")[4] for path in bench.sent[before:]} == set(names)


async def test_remembered_namespaces_are_bounded() -> None:
    bench = Bench()
    names = [f"n{number}" for number in range(MOST_NAMESPACES + 1)]
    bench.forbidden = set(names)
    for name in names * REFUSALS:
        await bench.write(name)
    assert await bench.write(names[0]) == "withheld"
    assert await bench.write(names[-1]) == "refused"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        # The right is there.
        (ApiError(404, "NotFound", "gone"), "refused"),
        (ApiError(409, "Conflict", "changed"), "refused"),
        # Nobody knows.
        (ApiError(500, "InternalError", "broken"), "withheld"),
        (LostAnswerError("no answer"), "withheld"),
    ],
)
async def test_any_answer_after_the_check_of_rights_releases_calls(
    error: KubernetesError, expected: str
) -> None:
    bench = Bench()
    bench.forbidden = {"a"}
    await bench.write_for(10, "a")
    bench.forbidden, bench.error = set(), error
    while await bench.write() == "withheld":
        await bench.clock.advance(0.1)
    assert await bench.write() == expected


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "w" denied the request: cannot patch pods',
        # The text of a tenant, about another right.
        f"denied: {refusal('a', 'create', 'pods')}",
    ],
)
async def test_a_refusal_of_one_object_withholds_no_others(message: str) -> None:
    bench = Bench()
    bench.error = MissingRightsError(message)
    assert {await bench.write() for _ in range(20)} == {"refused"}


async def test_a_missing_right_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.forbidden = {"a", "b"}
    with caplog.at_level(logging.INFO):
        await bench.write_for(120, "a", "b")
        bench.forbidden = set()
        await bench.write_for(60, "a", "b")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "missing rights: patch on pods/status in namespace a" in lines[0]
    assert "not missing any more" in lines[1]


async def test_statuses_of_many_waiting_pods_need_few_refused_calls(
    fake_api: FakeApi, watched: Callable[..., Cluster]
) -> None:
    trouble = Trouble("PATCH", "/pods/.*/status$", times=1000, status=403, message=refusal("ns"))
    fake_api.trouble = [trouble]
    cluster = watched()
    await until(lambda: cluster.synced)

    async def write(number: int) -> ApplyCode:
        fake_api.put("pods", {"metadata": {"namespace": "ns", "name": f"p{number}"}})
        change = PodConditionChange(namespace="ns", name=f"p{number}", reason="Unschedulable")
        return (await cluster.world.status_updater.write_status(StatusChange(pod=change))).code

    first = [await write(number) for number in range(REFUSALS)]
    assert first == [ApplyCode.FORBIDDEN] * REFUSALS
    rest = await asyncio.gather(*(write(number) for number in range(100)))
    assert set(rest) == {ApplyCode.WITHHELD}
    assert len(fake_api.made("PATCH", "/status$")) == REFUSALS
