"""ResourceClaims are written before a pod is bound, and given back when it is not."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from pumice.adapters.kubernetes.claim_writer import FINALIZER, ClaimWriter
from pumice.adapters.kubernetes.device_claims import DeviceClaimBinder
from pumice.adapters.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError
from pumice.adapters.kubernetes.extended_claims import ExtendedClaimWriter
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult, Reading
from pumice.v1.decision_pb2 import Bind, ResourceClaimChoice
from pumice.v1.devices_pb2 import AllocatedDevice, DeviceAllocation
from tests.adapters.fake_clock import FakeClock
from tests.adapters.kubernetes.objects import order

BASE = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"


class Claims:
    """An API server with claims, which checks versions and merges patches."""

    def __init__(self, *names: str) -> None:
        self.held: dict[str, dict[str, Any]] = {}
        for name in names:
            self.held[f"{BASE}/{name}"] = {
                "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
                "spec": {
                    "devices": {
                        "requests": [{"name": "req", "exactly": {"deviceClassName": "gpu"}}],
                        "config": [{"requests": ["req"], "opaque": {"driver": "d"}}],
                    }
                },
            }
        # Errors that the next patches answer with.
        self.troubles: list[ApiError] = []

    def claim(self, name: str) -> dict[str, Any]:
        return self.held[f"{BASE}/{name}"]

    def status(self, name: str) -> dict[str, Any]:
        return dict(self.claim(name).get("status") or {})

    async def call(self, method: str, path: str, body: bytes = b"", **_more: Any) -> bytes:
        found = self.held.get(path.removesuffix("/status"))
        if found is None:
            raise ApiError(NOT_FOUND, "NotFound", "not found")
        if method == "PATCH":
            if self.troubles:
                raise self.troubles.pop(0)
            patch = json.loads(body)
            if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                raise ApiError(CONFLICT, "Conflict", "another version")
            _merge(found, patch)
            version = int(found["metadata"]["resourceVersion"]) + 1
            found["metadata"]["resourceVersion"] = str(version)
        return json.dumps(found).encode()


def _merge(held: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            held.pop(key, None)
        elif isinstance(value, dict):
            _merge(held.setdefault(key, {}), value)
        else:
            held[key] = value


class Pods:
    """What reading a pod answers."""

    def __init__(self) -> None:
        self.reading = Reading(None)

    async def read(self, namespace: str, name: str) -> Reading:
        return self.reading


def binder_of(claims: Claims, clock: FakeClock | None = None) -> DeviceClaimBinder:
    api = cast(ApiSession, claims)
    writer = ClaimWriter(api, lambda: True, 1.0)
    extended = ExtendedClaimWriter(api, lambda: True, 1.0)
    return DeviceClaimBinder(writer, extended, Pods().read, clock or FakeClock(), Metrics())


def choice(name: str, device: str = "gpu-0") -> ResourceClaimChoice:
    chosen = AllocatedDevice(request="req", driver="d", pool="n1", device=device)
    allocation = DeviceAllocation(devices=[chosen] if device else [])
    found = ResourceClaimChoice(claim=name, claim_uid=f"uid-{name}")
    if device:
        found.allocation.CopyFrom(allocation)
    return found


def bind(uid: str, *choices: ResourceClaimChoice) -> Bind:
    made = order(uid)
    made.resource_claims.extend(choices)
    return made


async def test_a_claim_gets_devices_a_consumer_a_finalizer_and_its_configuration() -> None:
    claims = Claims("c")
    wanted = bind("p", choice("c"))
    assert await binder_of(claims).prepare(wanted) == DONE
    status = claims.status("c")
    assert status["reservedFor"] == [{"resource": "pods", "name": wanted.name, "uid": "p"}]
    results = status["allocation"]["devices"]["results"]
    assert results == [{"request": "req", "driver": "d", "pool": "n1", "device": "gpu-0"}]
    [config] = status["allocation"]["devices"]["config"]
    assert config == {"requests": ["req"], "opaque": {"driver": "d"}, "source": "FromClaim"}
    assert claims.claim("c")["metadata"]["finalizers"] == [FINALIZER]


async def test_what_was_written_is_not_written_again() -> None:
    claims = Claims("c")
    binder = binder_of(claims)
    for _ in range(3):
        assert await binder.prepare(bind("p", choice("c"))) == DONE
    assert len(claims.status("c")["reservedFor"]) == 1
    assert claims.claim("c")["metadata"]["resourceVersion"] == "3"


async def test_pods_share_a_claim_and_the_last_one_takes_the_devices_with_it() -> None:
    claims = Claims("c")
    binder = binder_of(claims)
    first, second = bind("p", choice("c")), bind("q", choice("c", device=""))
    assert await binder.prepare(first) == DONE
    assert await binder.prepare(second) == DONE
    failed = ApplyResult(ApplyCode.NOT_FOUND)
    await binder.settle(first, failed)
    assert [held["uid"] for held in claims.status("c")["reservedFor"]] == ["q"]
    assert "allocation" in claims.status("c")
    await binder.settle(second, failed)
    assert claims.status("c") == {}


async def test_a_bound_pod_keeps_its_claims() -> None:
    claims = Claims("c")
    binder = binder_of(claims)
    await binder.prepare(bind("p", choice("c")))
    await binder.settle(bind("p", choice("c")), DONE)
    await binder.settle(bind("p", choice("c")), ApplyResult(ApplyCode.NOT_FOUND))
    assert "allocation" in claims.status("c")


@pytest.mark.parametrize("second", ["missing", "other", "unallocated", "deleted"])
async def test_the_first_claim_is_given_back_when_the_second_cannot_be_had(second: str) -> None:
    claims = Claims("a", "other", "unallocated", "deleted")
    claims.claim("other")["status"] = {"allocation": {"devices": {"results": []}}}
    claims.claim("deleted")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    device = "" if second == "unallocated" else "gpu-1"
    wanted = bind("p", choice("a"), choice(second, device))
    result = await binder_of(claims).prepare(wanted)
    assert result.code is ApplyCode.INVALID
    assert claims.status("a") == {}


async def test_a_conflict_is_written_again_on_the_new_version() -> None:
    claims = Claims("c")
    claims.troubles = [ApiError(CONFLICT, "Conflict", "another version")]
    assert await binder_of(claims).prepare(bind("p", choice("c"))) == DONE
    assert "allocation" in claims.status("c")


async def test_a_claim_that_nobody_goes_on_with_is_given_back_with_growing_delays() -> None:
    claims, clock = Claims("c"), FakeClock()
    binder = binder_of(claims, clock)
    await binder.prepare(bind("p", choice("c")))
    sweeps = asyncio.create_task(binder.run())
    claims.troubles = [ApiError(503, "ServiceUnavailable", "not now")] * 3
    await clock.advance(50)
    assert "allocation" in claims.status("c")
    await clock.advance(600)
    await end_tasks(sweeps)
    assert claims.status("c") == {}


async def test_the_end_of_the_process_gives_claims_back() -> None:
    claims = Claims("c")
    binder = binder_of(claims)
    await binder.prepare(bind("p", choice("c")))
    await binder.close()
    assert claims.status("c") == {}


def conditional() -> ResourceClaimChoice:
    found = choice("c")
    found.allocation.devices[0].binding_conditions.append("ready")
    found.allocation.devices[0].binding_failure_conditions.append("broken")
    found.allocation.allocation_time.FromSeconds(1_700_000_000)
    return found


def say(claims: Claims, kind: str, status: str) -> None:
    """What a driver writes about a device."""
    condition = {"type": kind, "status": status}
    device = {"driver": "d", "pool": "n1", "device": "gpu-0", "conditions": [condition]}
    claims.claim("c")["status"]["devices"] = [device]


async def test_a_bind_waits_for_the_conditions_of_a_device() -> None:
    claims = Claims("c")
    binder = binder_of(claims)
    result = await binder.prepare(bind("p", conditional()))
    assert result.code is ApplyCode.WAITING
    assert "waiting for ready" in result.reason
    allocation = claims.status("c")["allocation"]
    assert allocation["devices"]["results"][0]["bindingConditions"] == ["ready"]
    assert allocation["allocationTimestamp"] == "2023-11-14T22:13:20Z"
    say(claims, "ready", "False")
    assert (await binder.prepare(bind("p", conditional()))).code is ApplyCode.WAITING
    say(claims, "ready", "True")
    assert await binder.prepare(bind("p", conditional())) == DONE
    # So it is for a pod that shares the claim.
    assert await binder.prepare(bind("q", choice("c", device=""))) == DONE


async def test_a_device_that_fails_is_given_back() -> None:
    claims = Claims("c")
    binder = binder_of(claims)
    await binder.prepare(bind("p", conditional()))
    say(claims, "broken", "True")
    result = await binder.prepare(bind("p", conditional()))
    assert result.code is ApplyCode.INVALID
    assert "device d/n1/gpu-0 cannot be used: broken" in result.reason
    assert claims.status("c") == {}


async def test_conditions_that_do_not_come_end_the_attempt() -> None:
    claims, clock = Claims("c"), FakeClock()
    binder = binder_of(claims, clock)
    await binder.prepare(bind("p", conditional()))
    await clock.advance(599)
    assert (await binder.prepare(bind("p", conditional()))).code is ApplyCode.WAITING
    await clock.advance(2)
    result = await binder.prepare(bind("p", conditional()))
    assert result.code is ApplyCode.INVALID
    assert claims.status("c") == {}
