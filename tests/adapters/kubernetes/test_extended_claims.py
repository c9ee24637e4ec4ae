"""Claims for extended resources are made with the bind, and deleted when it fails."""

from __future__ import annotations

import json
from typing import Any, cast

from pumice.adapters.kubernetes.claim_writer import FINALIZER, ClaimWriter
from pumice.adapters.kubernetes.device_claims import DeviceClaimBinder
from pumice.adapters.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError
from pumice.adapters.kubernetes.extended_claims import ANNOTATION, ExtendedClaimWriter
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult, Reading
from pumice.v1.decision_pb2 import Bind, RequestMapping, ResourceClaimChoice
from pumice.v1.devices_pb2 import AllocatedDevice, DeviceRequest, DeviceSubRequest
from tests.adapters.fake_clock import FakeClock
from tests.adapters.kubernetes.objects import order

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
NAME = "p-extended-resources-abcde"
STATUS = "extendedResourceClaimStatus"


class Server:
    """An API server with one pod, which checks versions and merges patches."""

    def __init__(self, wanted: Bind, *, keeps_status: bool = True) -> None:
        self.pod_path = f"/api/v1/namespaces/ns/pods/{wanted.name}"
        self.held: dict[str, dict[str, Any]] = {
            self.pod_path: {
                "metadata": {"name": wanted.name, "uid": wanted.uid, "resourceVersion": "1"}
            }
        }
        self.keeps_status = keeps_status
        self.made = 0
        # Errors that the next calls of a method answer with, after they were carried out.
        self.lost: dict[str, ApiError] = {}

    @property
    def claim(self) -> dict[str, Any] | None:
        return self.held.get(f"{CLAIMS}/{NAME}")

    @property
    def pod_status(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.held[self.pod_path].get("status", {}).get(STATUS)
        return found

    async def call(self, method: str, path: str, body: bytes = b"", **_more: Any) -> bytes:
        answer = self._call(method, path, json.loads(body or b"{}"))
        if error := self.lost.pop(method, None):
            raise error
        return json.dumps(answer).encode()

    def _call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if method == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        place = path.removesuffix("/status")
        found = self.held.get(place)
        if found is None:
            raise ApiError(NOT_FOUND, "NotFound", "not found")
        if method == "DELETE":
            assert body["preconditions"]["uid"] == found["metadata"]["uid"]
            assert not found["metadata"].get("finalizers")
            del self.held[place]
        elif method == "PATCH":
            if not self.keeps_status:
                body.get("status", {}).pop(STATUS, None)
            _merge(found, body)
        return found

    def _create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path in self.held:
            raise ApiError(CONFLICT, "AlreadyExists", "exists")
        self.made += 1
        body["metadata"] |= {"uid": f"uid-{self.made}", "resourceVersion": "1"}
        self.held[path] = body
        return body


def _merge(held: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            held.pop(key, None)
        elif isinstance(value, dict):
            _merge(held.setdefault(key, {}), value)
        else:
            held[key] = value


def wanted(device: str = "gpu-0", count: int = 1) -> Bind:
    choice = ResourceClaimChoice(
        claim=NAME,
        requests=[
            DeviceRequest(
                name="container-0-request-0",
                exactly=DeviceSubRequest(device_class_name="gpu", count=count),
            )
        ],
        mappings=[
            RequestMapping(
                container="main", resource="example.com/gpu", request="container-0-request-0"
            )
        ],
    )
    chosen = AllocatedDevice(request="container-0-request-0", driver="d", pool="n1", device=device)
    choice.allocation.devices.append(chosen)
    made = order("p")
    made.resource_claims.append(choice)
    return made


def binder_of(server: Server) -> DeviceClaimBinder:
    async def no_pod(namespace: str, name: str) -> Reading:
        return Reading(None)

    api = cast(ApiSession, server)
    writers = ClaimWriter(api, lambda: True, 1.0), ExtendedClaimWriter(api, lambda: True, 1.0)
    return DeviceClaimBinder(*writers, no_pod, FakeClock(), Metrics())


def devices(server: Server) -> list[str]:
    assert server.claim is not None
    return [held["device"] for held in server.claim["status"]["allocation"]["devices"]["results"]]


async def test_a_claim_is_made_allocated_and_named_in_the_status_of_its_pod() -> None:
    bind = wanted()
    server = Server(bind)
    assert await binder_of(server).prepare(bind) == DONE
    claim = server.claim
    assert claim is not None
    [owner] = claim["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": bind.name,
        "uid": bind.uid,
        "controller": True,
    }
    assert claim["metadata"]["annotations"] == {ANNOTATION: "true"}
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["reservedFor"] == [
        {"resource": "pods", "name": bind.name, "uid": bind.uid}
    ]
    assert devices(server) == ["gpu-0"]
    assert server.pod_status == {
        "resourceClaimName": NAME,
        "requestMappings": [
            {
                "containerName": "main",
                "resourceName": "example.com/gpu",
                "requestName": "container-0-request-0",
            }
        ],
    }


async def test_an_attempt_that_is_repeated_makes_one_claim() -> None:
    bind = wanted()
    server = Server(bind)
    server.lost["POST"] = ApiError(500, "InternalError", "the answer is lost")
    binder = binder_of(server)
    assert (await binder.prepare(bind)).code is not ApplyCode.DONE
    assert await binder.prepare(bind) == DONE
    # Another adapter goes on after this one.
    assert await binder_of(server).prepare(bind) == DONE
    assert server.made == 1


async def test_a_bind_that_fails_deletes_the_claim_and_its_name() -> None:
    bind = wanted()
    server = Server(bind)
    binder = binder_of(server)
    await binder.prepare(bind)
    await binder.settle(bind, ApplyResult(ApplyCode.INVALID, "no"))
    assert server.claim is None
    assert server.pod_status is None
    await binder.prepare(bind)
    await binder.settle(bind, DONE)
    assert server.claim is not None


async def test_a_claim_with_other_devices_or_requests_is_replaced() -> None:
    server = Server(wanted())
    await binder_of(server).prepare(wanted())
    assert await binder_of(server).prepare(wanted("gpu-1")) == DONE
    assert devices(server) == ["gpu-1"]
    assert await binder_of(server).prepare(wanted("gpu-1", count=2)) == DONE
    assert server.made == 3


async def test_a_claim_of_another_owner_is_left_alone() -> None:
    bind = wanted()
    server = Server(bind)
    metadata: dict[str, Any] = {"name": NAME, "uid": "uid-other", "resourceVersion": "1"}
    server.held[f"{CLAIMS}/{NAME}"] = {"metadata": metadata}
    binder = binder_of(server)
    result = await binder.prepare(bind)
    assert result == ApplyResult(ApplyCode.INVALID, f"claim {NAME} belongs to another owner")
    assert server.claim is not None
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    metadata |= {
        "annotations": {ANNOTATION: "true"},
        "ownerReferences": [{"uid": bind.uid, "controller": True}],
    }
    assert "is being deleted" in (await binder_of(server).prepare(bind)).reason


async def test_a_server_that_does_not_keep_the_status_is_named() -> None:
    bind = wanted()
    server = Server(bind, keeps_status=False)
    result = await binder_of(server).prepare(bind)
    assert result.code is ApplyCode.INVALID
    assert "DRAExtendedResource is off" in result.reason
    assert server.claim is None


async def test_a_pod_that_is_gone_does_not_prevent_the_deletion() -> None:
    bind = wanted()
    server = Server(bind)
    binder = binder_of(server)
    await binder.prepare(bind)
    del server.held[server.pod_path]
    await binder.settle(bind, ApplyResult(ApplyCode.NOT_FOUND))
    assert server.claim is None
