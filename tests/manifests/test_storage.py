"""Volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.v1 import storage_pb2
from tests.manifests.manifest import manifest, problem_of, requirements_said, said, translated

STORAGE = "storage.k8s.io/v1"


def test_a_volume() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    body = {
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "storageClassName": "fast",
            "volumeAttributesClassName": "gold",
            "csi": {"driver": "ebs", "volumeHandle": "vol-1"},
            "claimRef": {"namespace": "a", "name": "c", "uid": "cu"},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            },
        },
        "status": {"phase": "Bound"},
    }
    found = translated(
        manifest("v1", "PersistentVolume", body, labels={"l": "1"}, deletionTimestamp="t")
    ).persistent_volume
    assert found.phase == storage_pb2.VOLUME_PHASE_BOUND
    assert (found.storage_class_name, found.attributes_class_name) == ("fast", "gold")
    assert found.capacity_bytes == 10 * 2**30
    assert list(found.access_modes) == [storage_pb2.ACCESS_MODE_READ_WRITE_ONCE]
    assert found.block_mode
    (term,) = found.node_terms.terms
    assert requirements_said(list(term.label_requirements)) == ["zone in a"]
    assert (found.csi_driver, found.csi_handle) == ("ebs", "vol-1")
    assert (found.claim_key, found.claim_uid) == ("a/c", "cu")
    assert found.terminating


def test_a_volume_without_affinity_is_reachable_from_everywhere() -> None:
    found = translated(manifest("v1", "PersistentVolume")).persistent_volume
    assert not found.HasField("node_terms")
    assert (found.claim_key, found.csi_driver, found.block_mode) == ("", "", False)


def claim(
    spec: dict[str, Any], status: dict[str, Any] | None = None, **metadata: Any
) -> storage_pb2.PersistentVolumeClaim:
    document = manifest(
        "v1", "PersistentVolumeClaim", {"spec": spec, "status": status or {}}, **metadata
    )
    return translated(document).persistent_volume_claim


def test_a_claim() -> None:
    found = claim(
        {
            "volumeName": "v",
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1.5Gi"}},
            "accessModes": ["ReadWriteMany"],
            "selector": {"matchLabels": {"a": "1"}},
        },
        {"phase": "Lost"},
        namespace="a",
        annotations={
            "pv.kubernetes.io/bind-completed": "",
            "volume.kubernetes.io/selected-node": "n1",
        },
        ownerReferences=[{"uid": "pod-uid", "controller": True}],
    )
    assert (found.namespace, found.name, found.volume_name) == ("a", "x", "v")
    assert found.phase == storage_pb2.VOLUME_PHASE_LOST
    assert found.storage_class_name == "fast"
    assert found.request_bytes == 3 * 2**29
    assert list(found.access_modes) == [storage_pb2.ACCESS_MODE_READ_WRITE_MANY]
    assert said(found.selector) == ["a in 1"]
    assert found.bind_completed
    assert (found.selected_node, found.owner_uid) == ("n1", "pod-uid")


@pytest.mark.parametrize(
    ("spec", "annotations", "expected"),
    [
        ({}, {}, None),
        ({"storageClassName": ""}, {}, ""),
        ({"storageClassName": "new"}, {"volume.beta.kubernetes.io/storage-class": "old"}, "old"),
    ],
)
def test_no_storage_class_differs_from_an_empty_one(
    spec: dict[str, Any], annotations: dict[str, str], expected: str | None
) -> None:
    found = claim(spec, annotations=annotations)
    name = found.storage_class_name if found.HasField("storage_class_name") else None
    assert name == expected


def test_a_storage_class() -> None:
    body = {
        "provisioner": "ebs",
        "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {"csi.storage.k8s.io/csi-driver-name": "real", "type": "gp3"},
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
    }
    found = translated(manifest(STORAGE, "StorageClass", body)).storage_class
    assert (found.provisioner, found.csi_driver_name) == ("ebs", "real")
    assert found.wait_for_first_consumer
    (term,) = found.allowed_topologies
    assert requirements_said(list(term.label_requirements)) == ["zone in a,b"]


def test_limits_of_drivers_on_a_node() -> None:
    drivers = [{"name": "a", "allocatable": {"count": 25}}, {"name": "b"},
               {"name": "c", "allocatable": None}]  # fmt: skip
    found = translated(manifest(STORAGE, "CSINode", {"spec": {"drivers": drivers}})).csi_node
    assert dict(found.driver_limits) == {"a": 25, "b": -1, "c": -1}
    empty = translated(manifest(STORAGE, "CSINode", {"spec": {"drivers": None}})).csi_node
    assert dict(empty.driver_limits) == {}


def test_drivers_that_publish_capacity() -> None:
    body = {"spec": {"storageCapacity": True}}
    assert translated(manifest(STORAGE, "CSIDriver", body)).csi_driver.publishes_capacity
    assert not translated(manifest(STORAGE, "CSIDriver")).csi_driver.publishes_capacity


def test_capacity_that_a_driver_publishes() -> None:
    body = {
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
        "capacity": "10Gi",
        "maximumVolumeSize": "1Gi",
    }
    found = translated(manifest(STORAGE, "CSIStorageCapacity", body)).csi_storage_capacity
    assert found.storage_class_name == "fast"
    assert said(found.node_selector) == ["zone in a"]
    assert (found.capacity_bytes, found.maximum_volume_bytes) == (10 * 2**30, 2**30)
    without = translated(manifest(STORAGE, "CSIStorageCapacity")).csi_storage_capacity
    for field in ("node_selector", "capacity_bytes", "maximum_volume_bytes"):
        assert not without.HasField(field)


def test_attachments() -> None:
    body = {"spec": {"attacher": "ebs", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}
    found = translated(manifest(STORAGE, "VolumeAttachment", body)).volume_attachment
    assert (found.attacher, found.node_name, found.volume_name) == ("ebs", "n", "v")


def test_bad_amounts_of_storage_are_named() -> None:
    body = {"spec": {"resources": {"requests": {"storage": "many"}}}}
    assert problem_of(manifest("v1", "PersistentVolumeClaim", body)).startswith(
        "PersistentVolumeClaim default/x: spec.resources.requests[storage]: "
        "'many' is not a quantity"
    )
    assert problem_of(manifest(STORAGE, "CSIStorageCapacity", {"capacity": "many"})).startswith(
        "CSIStorageCapacity default/x: capacity: 'many' is not a quantity"
    )
