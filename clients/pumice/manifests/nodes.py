"""Nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from pumice.manifests.amounts import amounts
from pumice.manifests.annotations import (
    OVERSUBSCRIPTION_CPU,
    OVERSUBSCRIPTION_MEMORY,
    for_scheduling,
)
from pumice.manifests.quantities import MAX_INT64, Quantity
from pumice.manifests.selectors import TaintShape, taints
from pumice.manifests.shapes import Int64, Metadata, Shape
from pumice.patterns.golang import parse_decimal
from pumice.v1 import node_pb2


class NodeSpecShape(Shape, frozen=True):
    """The specification of a node."""

    taints: tuple[TaintShape, ...] = ()
    unschedulable: bool = False


class ImageShape(Shape, frozen=True):
    """An image on a node."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatusShape(Shape, frozen=True):
    """The status of a node."""

    allocatable: dict[str, Quantity] = msgspec.field(default_factory=dict)
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    images: tuple[ImageShape, ...] = ()


class NodeShape(Shape, frozen=True):
    """A node."""

    metadata: Metadata = Metadata()
    spec: NodeSpecShape = NodeSpecShape()
    status: NodeStatusShape = NodeStatusShape()


DECODER: Final = msgspec.json.Decoder(NodeShape)
_MOST_IMAGE_LISTS: Final = 1024
_image_lists: dict[tuple[ImageShape, ...], node_pb2.Node] = {}


def fill_node(node: node_pb2.Node, shape: NodeShape) -> None:
    metadata, status = shape.metadata, shape.status
    node.name = metadata.need_name()
    node.uid = metadata.cluster_uid_of("Node")
    metadata.fill_creation_time(node.creation_time)
    node.labels.update(metadata.labels)
    node.annotations.update(for_scheduling(metadata.annotations))
    node.taints.extend(taints(shape.spec.taints, "spec.taints"))
    node.unschedulable = shape.spec.unschedulable
    node.allocatable.update(amounts(status.allocatable, "status.allocatable"))
    node.capacity.update(amounts(status.capacity, "status.capacity"))
    node.oversubscription_milli_cpu = _oversubscription(metadata.annotations, OVERSUBSCRIPTION_CPU)
    node.oversubscription_memory_bytes = _oversubscription(
        metadata.annotations, OVERSUBSCRIPTION_MEMORY
    )
    if status.images:
        node.images.MergeFrom(_translated_images(status.images).images)


def _translated_images(images: tuple[ImageShape, ...]) -> node_pb2.Node:
    """A cached node with only these images; callers must not change it.

    Images are the longest part of a node, and every report of a node repeats them.
    """
    found = _image_lists.get(images)
    if found is None:
        found = node_pb2.Node()
        for image in images:
            found.images.add(names=image.names, size_bytes=image.size_bytes)
        if len(_image_lists) >= _MOST_IMAGE_LISTS:
            _image_lists.clear()
        _image_lists[images] = found
    return found


def _oversubscription(annotations: Mapping[str, str], key: str) -> int:
    """Oversubscribed resources that Volcano's agent reports; invalid numbers are 0, as in Volcano."""
    amount = parse_decimal(annotations.get(key, ""))
    if amount is None or not math.isfinite(amount) or not 0 <= amount <= MAX_INT64:
        return 0
    return int(amount)
