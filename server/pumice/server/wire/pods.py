"""Converts pods and nodes between protocol messages and the engine's values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from sys import intern

from pumice.core.model.node import Node, NodeImage
from pumice.core.model.pod import Pod, PodCondition, PodPhase, PodSpec
from pumice.server.wire.fields import (
    CONDITION_STATUS_NUMBERS,
    CONDITION_STATUSES,
    EXACT_LIMIT,
    FieldError,
    amount,
    amounts,
    check_identity,
    enum_value,
    interned,
)
from pumice.server.wire.selectors import read_taint, write_taint
from pumice.server.wire.specs import SPEC, read_spec
from pumice.server.wire.times import read_time, write_time
from pumice.v1 import node_pb2, pod_pb2

_PHASES = {
    pod_pb2.POD_PHASE_UNSPECIFIED: PodPhase.PENDING,
    pod_pb2.POD_PHASE_PENDING: PodPhase.PENDING,
    pod_pb2.POD_PHASE_RUNNING: PodPhase.RUNNING,
    pod_pb2.POD_PHASE_SUCCEEDED: PodPhase.SUCCEEDED,
    pod_pb2.POD_PHASE_FAILED: PodPhase.FAILED,
    pod_pb2.POD_PHASE_UNKNOWN: PodPhase.UNKNOWN,
}
_SHARED_IMAGES = 4096
# Sizes of the caches of image lists and of resource amounts, which nodes share.
_SHARED_IMAGE_LISTS = _SHARED_AMOUNTS = 1024
_PHASE_NUMBERS = {phase: number for number, phase in _PHASES.items()}


def _read_conditions(messages: Sequence[pod_pb2.PodCondition]) -> tuple[PodCondition, ...]:
    try:
        return tuple(
            [
                PodCondition(
                    m.type,
                    CONDITION_STATUSES[m.status],
                    m.reason,
                    m.message,
                    read_time("", m.transition_time),
                )
                for m in messages
            ]
        )
    except (FieldError, KeyError):
        # Finds the invalid field. Formatting the names of fields is too slow for valid pods.
        for i, m in enumerate(messages):
            enum_value(f"conditions[{i}].status", m.status, CONDITION_STATUSES)
            read_time(f"conditions[{i}].transition_time", m.transition_time)
        raise


def _write_condition(condition: PodCondition) -> pod_pb2.PodCondition:
    return pod_pb2.PodCondition(
        type=condition.type,
        status=CONDITION_STATUS_NUMBERS[condition.status],
        reason=condition.reason,
        message=condition.message,
        transition_time=write_time(condition.transition_time_ns),
    )


def read_pod(
    message: pod_pb2.Pod, read_spec: Callable[[pod_pb2.PodSpec], PodSpec] = read_spec
) -> Pod:
    """Reads a pod. It is called very often, so arguments are positional."""
    uid, namespace, name = message.uid, message.namespace, message.name
    check_identity(message)
    has, labels, annotations = message.HasField, message.labels, message.annotations
    conditions = message.conditions
    return Pod(
        uid,
        intern(namespace),
        name,
        read_spec(message.spec),
        read_time("creation_time", message.creation_time),
        {intern(key): intern(labels[key]) for key in labels} if labels else {},
        {intern(key): intern(annotations[key]) for key in annotations} if annotations else {},
        enum_value("phase", message.phase, _PHASES),
        message.terminating,
        intern(message.node_name),
        message.nominated_node_name,
        _read_conditions(conditions) if conditions else (),
        read_time("start_time", message.start_time),
        intern(message.group_name),
        intern(message.role),
        message.priority,
        message.task_priority if has("task_priority") else 1,
        message.preemptable if has("preemptable") else True,
        intern(message.revocable_zone),
        intern(message.controller_uid),
        intern(message.controller_kind),
        intern(message.controller_name),
    )


def write_pod(pod: Pod) -> pod_pb2.Pod:
    return pod_pb2.Pod(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        spec=SPEC.write(pod.spec),
        creation_time=write_time(pod.creation_time_ns),
        labels=pod.labels,
        annotations=pod.annotations,
        phase=_PHASE_NUMBERS[pod.phase],
        terminating=pod.terminating,
        node_name=pod.node_name,
        nominated_node_name=pod.nominated_node_name,
        conditions=map(_write_condition, pod.conditions),
        start_time=write_time(pod.start_time_ns),
        group_name=pod.group_name,
        role=pod.role,
        priority=pod.priority,
        task_priority=pod.task_priority,
        preemptable=pod.preemptable,
        revocable_zone=pod.revocable_zone,
        controller_uid=pod.controller_uid,
        controller_kind=pod.controller_kind,
        controller_name=pod.controller_name,
    )


@lru_cache(maxsize=_SHARED_IMAGES)
def _image(names: tuple[str, ...], size_bytes: int) -> NodeImage:
    """One object for all nodes with the image, because most nodes have the same images."""
    return NodeImage(names, size_bytes)


@lru_cache(maxsize=_SHARED_AMOUNTS)
def _shared_amounts(amounts: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """One object for all nodes with the same amounts, because most nodes are alike."""
    return tuple([(intern(name), amount) for name, amount in amounts])


class _ImageLists:
    """Shares one list of images among all nodes with the same images in the same order."""

    def __init__(self) -> None:
        # Keyed by the ids of the images. The lists hold references, so ids are not reused.
        self._lists: dict[tuple[int, ...], tuple[NodeImage, ...]] = {}

    def share(self, images: tuple[NodeImage, ...]) -> tuple[NodeImage, ...]:
        known = self._lists.get(key := tuple(map(id, images)))
        if known is not None:
            return known
        if len(self._lists) >= _SHARED_IMAGE_LISTS:
            self._lists.clear()
        self._lists[key] = images
        return images


_image_lists = _ImageLists()


def read_node(message: node_pb2.Node) -> Node:
    uid, name, taints, images = message.uid, message.name, message.taints, message.images
    return Node(
        uid=uid,
        name=intern(name),
        creation_time_ns=read_time("creation_time", message.creation_time),
        labels=interned(message.labels),
        annotations=interned(message.annotations),
        taints=tuple(read_taint(f"taints[{i}]", m) for i, m in enumerate(taints)) if taints else (),
        unschedulable=message.unschedulable,
        allocatable=_shared_amounts(amounts("allocatable", message.allocatable, EXACT_LIMIT)),
        capacity=_shared_amounts(amounts("capacity", message.capacity, EXACT_LIMIT)),
        oversubscription_milli_cpu=amount(
            "oversubscription_milli_cpu", message.oversubscription_milli_cpu, EXACT_LIMIT
        ),
        oversubscription_memory_bytes=amount(
            "oversubscription_memory_bytes", message.oversubscription_memory_bytes, EXACT_LIMIT
        ),
        images=_image_lists.share(_read_images(images)) if images else (),
    )


def _read_images(images: Collection[node_pb2.NodeImage]) -> tuple[NodeImage, ...]:
    sizes = [message.size_bytes for message in images]
    if min(sizes) < 0:
        for number, size in enumerate(sizes):
            amount(f"images[{number}].size_bytes", size)
    # The names of fields are formatted only for errors, because that costs more than reading.
    pairs = zip(images, sizes, strict=True)
    return tuple([_image(tuple(message.names), size) for message, size in pairs])


def write_node(node: Node) -> node_pb2.Node:
    return node_pb2.Node(
        uid=node.uid,
        name=node.name,
        creation_time=write_time(node.creation_time_ns),
        labels=node.labels,
        annotations=node.annotations,
        taints=map(write_taint, node.taints),
        unschedulable=node.unschedulable,
        allocatable=dict(node.allocatable),
        capacity=dict(node.capacity),
        oversubscription_milli_cpu=node.oversubscription_milli_cpu,
        oversubscription_memory_bytes=node.oversubscription_memory_bytes,
        images=[
            node_pb2.NodeImage(names=image.names, size_bytes=image.size_bytes)
            for image in node.images
        ],
    )
