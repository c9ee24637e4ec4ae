"""Device claims, slices and classes."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.v1 import devices_pb2, selector_pb2
from tests.manifests.manifest import manifest, problem_of, requirements_said, translated

RESOURCE = "resource.k8s.io/v1"
CEL = [{"cel": {"expression": "device.driver == 'd'"}}]


def claim(
    spec: dict[str, Any], status: dict[str, Any] | None = None, version: str = RESOURCE, **meta: Any
) -> devices_pb2.ResourceClaim:
    body = {"spec": {"devices": spec}, "status": status or {}}
    return translated(manifest(version, "ResourceClaim", body, **meta)).resource_claim


def test_a_claim_with_an_exact_request_and_alternatives() -> None:
    found = claim(
        {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu",
                        "selectors": CEL,
                        "allocationMode": "ExactCount",
                        "count": 2,
                        "adminAccess": True,
                        "tolerations": [{"key": "t", "operator": "Exists"}],
                        "capacity": {"requests": {"memory": "10Gi"}},
                    },
                },
                {
                    "name": "any",
                    "firstAvailable": [
                        {"name": "big", "deviceClassName": "big"},
                        {"name": "small", "deviceClassName": "small", "allocationMode": "All"},
                    ],
                },
            ],
            "constraints": [{"requests": ["gpu"], "matchAttribute": "d/numa"}],
        },
        namespace="a",
        ownerReferences=[{"uid": "pod", "controller": True}],
    )
    exact, choice = found.requests
    assert (exact.name, exact.exactly.name) == ("gpu", "")
    assert exact.exactly == devices_pb2.DeviceSubRequest(
        device_class_name="gpu",
        selectors=["device.driver == 'd'"],
        allocation_mode=devices_pb2.DEVICE_ALLOCATION_MODE_EXACT_COUNT,
        count=2,
        admin_access=True,
        tolerations=[
            selector_pb2.Toleration(key="t", operator=selector_pb2.TOLERATION_OPERATOR_EXISTS)
        ],
        capacity_milli={"memory": 10 * 2**30 * 1000},
    )
    assert not choice.HasField("exactly")
    assert [(one.name, one.device_class_name) for one in choice.first_available] == [
        ("big", "big"),
        ("small", "small"),
    ]
    assert choice.first_available[1].allocation_mode == devices_pb2.DEVICE_ALLOCATION_MODE_ALL
    assert not choice.first_available[0].HasField("count")
    (constraint,) = found.constraints
    assert (list(constraint.requests), constraint.match_attribute) == (["gpu"], "d/numa")
    assert (found.namespace, found.owner_uid) == ("a", "pod")
    assert not found.HasField("allocation")


def test_the_first_beta_had_the_wish_in_the_request_itself() -> None:
    request = {"name": "gpu", "deviceClassName": "gpu", "count": 3}
    found = claim({"requests": [request]}, version="resource.k8s.io/v1beta1")
    assert found.requests[0].exactly == devices_pb2.DeviceSubRequest(
        device_class_name="gpu", count=3
    )


def test_an_allocation() -> None:
    expression = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    found = claim(
        {},
        {
            "allocation": {
                "devices": {
                    "results": [
                        {
                            "request": "gpu",
                            "driver": "d",
                            "pool": "p",
                            "device": "0",
                            "shareID": "s",
                            "consumedCapacity": {"memory": "1", "other/x": "2"},
                        }
                    ]
                },
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [expression]}]},
                "allocationTimestamp": "1970-01-01T00:00:01Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        },
    )
    (device,) = found.allocation.devices
    assert (device.request, device.driver, device.pool, device.device) == ("gpu", "d", "p", "0")
    assert device.share_id == "s"
    assert dict(device.consumed_capacity_milli) == {"d/memory": 1000, "other/x": 2000}
    (term,) = found.allocation.node_selector.terms
    assert requirements_said(list(term.field_requirements)) == ["metadata.name in n"]
    assert found.allocation.allocation_time.ToNanoseconds() == 10**9
    (consumer,) = found.reserved_for
    assert (consumer.resource, consumer.name, consumer.uid) == ("pods", "p", "u")


def device_slice(device: dict[str, Any], **spec: Any) -> devices_pb2.ResourceSlice:
    body = {"spec": {"driver": "d", "nodeName": "n", "devices": [device], **spec}}
    return translated(manifest(RESOURCE, "ResourceSlice", body)).resource_slice


DEVICE = {
    "attributes": {
        "model": {"string": "A"},
        "other/index": {"int": 3},
        "ok": {"bool": False},
        "firmware": {"version": "1.2.3"},
    },
    "capacity": {
        "memory": {
            "value": "80Gi",
            "requestPolicy": {
                "default": "1Gi",
                "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"},
            },
        },
        "cores": {"value": "4", "requestPolicy": {"validValues": ["1", "2"]}},
    },
}


def test_a_slice() -> None:
    found = device_slice(
        {
            "name": "gpu-0",
            **DEVICE,
            "consumesCounters": [{"counterSet": "c", "counters": {"slots": {"value": "2"}}}],
            "taints": [
                {"key": "t", "effect": "NoSchedule", "timeAdded": "1970-01-01T00:00:01Z"},
                {"key": "info", "effect": "None"},
            ],
            "allowMultipleAllocations": True,
            "bindsToNode": True,
            "bindingConditions": ["ready"],
        },
        pool={"name": "p", "generation": 2, "resourceSliceCount": 1},
        sharedCounters=[{"name": "c", "counters": {"slots": {"value": "7"}}}],
    )
    assert (found.driver, found.node_name) == ("d", "n")
    assert (found.pool.name, found.pool.generation, found.pool.resource_slice_count) == ("p", 2, 1)
    (device,) = found.devices
    attributes = {name: one.WhichOneof("value") for name, one in device.attributes.items()}
    assert attributes == {
        "d/model": "string_value",
        "other/index": "int_value",
        "d/ok": "bool_value",
        "d/firmware": "version_value",
    }
    memory, gi = device.capacity["d/memory"], 2**30 * 1000
    assert memory.value_milli == 80 * gi
    policy = memory.request_policy
    assert (policy.default_milli, policy.min_milli, policy.max_milli, policy.step_milli) == (
        gi,
        gi,
        8 * gi,
        gi,
    )
    cores = device.capacity["d/cores"].request_policy
    assert list(cores.valid_values_milli) == [1000, 2000]
    assert not cores.HasField("min_milli")
    (counters,) = device.consumes_counters
    assert (counters.name, dict(counters.counters_milli)) == ("c", {"slots": 2000})
    (shared,) = found.shared_counters
    assert (shared.name, dict(shared.counters_milli)) == ("c", {"slots": 7000})
    (taint,) = device.taints
    assert (taint.taint.key, taint.added_time.ToNanoseconds()) == ("t", 10**9)
    assert device.allow_multiple_allocations
    assert device.binds_to_node
    assert list(device.binding_conditions) == ["ready"]


def test_the_first_beta_had_what_a_device_is_like_in_a_part_of_its_own() -> None:
    old = device_slice({"name": "gpu-0", "basic": DEVICE})
    assert old == device_slice({"name": "gpu-0", **DEVICE})


def test_a_class() -> None:
    body = {"spec": {"selectors": CEL, "extendedResourceName": "x.y/gpu"}}
    found = translated(manifest(RESOURCE, "DeviceClass", body)).device_class
    assert list(found.selectors) == ["device.driver == 'd'"]
    assert found.extended_resource_name == "x.y/gpu"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (manifest(RESOURCE, "ResourceSlice",
                  {"spec": {"devices": [{"name": "a", "attributes": {"b": {}}}]}}),
         "ResourceSlice x: spec.devices[0].attributes[b]: has no value; "
         "allowed: one of int, bool, string, version"),
        (manifest(RESOURCE, "ResourceClaim", {"spec": {"devices": {"requests": [
            {"name": "a", "exactly": {"allocationMode": "Some"}}]}}}),
         "ResourceClaim default/x: spec.devices.requests[0].exactly.allocationMode: "
         "'Some' is unknown; allowed: ExactCount, All"),
    ],
)  # fmt: skip
def test_bad_devices_are_set_aside_with_one_line(document: dict[str, Any], problem: str) -> None:
    assert problem_of(document) == problem
