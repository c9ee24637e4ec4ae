"""Reads pods in bulk. The common fields of the pods of a gang are read once.

Pods of a gang differ in a few fields: uid, name, node and times. All other fields are the *shape*
of a pod. Each shape is read once and cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from sys import intern
from typing import NamedTuple

from pumice.core.model.pod import Pod, PodCondition, PodPhase, PodSpec
from pumice.server.wire.columns import PodColumns
from pumice.server.wire.fields import FieldError
from pumice.server.wire.pods import read_pod
from pumice.server.wire.specs import SpecTable
from pumice.server.wire.times import read_time
from pumice.v1 import delta_pb2, pod_pb2


class _Shape(NamedTuple):
    """The common fields of pods, grouped in the order of Pod's arguments."""

    namespace: str
    spec: PodSpec
    # The labels, the annotations, the phase, and whether it is terminating.
    before_node: tuple[Mapping[str, str], Mapping[str, str], PodPhase, bool]
    nominated_node_name: str
    # The conditions, with the times of one of the pods.
    conditions: tuple[PodCondition, ...]
    # Group, role, priorities, revocable zone and controller.
    after_times: tuple[str, str, int, int, bool, str, str, str, str]


def _shape_of(pod: Pod) -> _Shape:
    return _Shape(
        pod.namespace,
        pod.spec,
        (pod.labels, pod.annotations, pod.phase, pod.terminating),
        pod.nominated_node_name,
        pod.conditions,
        (
            pod.group_name,
            pod.role,
            pod.priority,
            pod.task_priority,
            pod.preemptable,
            pod.revocable_zone,
            pod.controller_uid,
            pod.controller_kind,
            pod.controller_name,
        ),
    )


class PodsRead(NamedTuple):
    """Pods of a batch, with the positions of their ops and their revisions."""

    places: list[int]
    revisions: list[int]
    pods: list[Pod]


class PodReader:
    """Reads pods; caches shapes and specs."""

    # Larger shapes are rare and are not cached.
    LARGEST_KEY_BYTES = 1 << 16

    def __init__(self, specs: SpecTable | None = None, limit: int = 20_000) -> None:
        self._read_spec = (SpecTable() if specs is None else specs).read
        self._limit = limit
        self._shapes: dict[bytes, _Shape] = {}
        self._texts: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def __len__(self) -> int:
        return len(self._shapes)

    def read(self, message: pod_pb2.Pod) -> Pod:
        """Reads one pod; equal labels and annotations are shared."""
        pod = read_pod(message, self._read_spec)
        pod.labels, pod.annotations = self._shared(pod.labels), self._shared(pod.annotations)
        return pod

    def _shared(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        if len(self._texts) >= self._limit:
            self._texts.clear()
        return self._texts.setdefault(tuple(texts.items()), texts)

    def read_batch(self, batch: delta_pb2.DeltaBatch) -> PodsRead:
        """Reads the valid pods of a batch. The caller reads the others one by one."""
        columns = PodColumns(batch)
        if not columns.is_valid:
            # Some pod has an invalid field, and the columns do not show which.
            return PodsRead([], [], [])
        shapes = self._shapes_of(batch, columns)
        rows = zip(
            shapes,
            columns.uids,
            columns.names,
            columns.creation_times_ns,
            columns.node_names,
            _conditions(batch, columns, shapes),
            columns.start_times_ns,
            strict=True,
        )
        pods = []
        for shape, uid, name, created, node, conditions, started in rows:
            if shape is not None:
                namespace, spec, before_node, nominated, _, after_times = shape
                pod = Pod(
                    *(uid, namespace, name, spec, created, *before_node),
                    *(intern(node), nominated, conditions, started, *after_times),
                )
                pods.append(pod)
        places, revisions = columns.places, columns.revisions
        if len(pods) < len(places):
            is_read = [shape is not None for shape in shapes]
            places, revisions = [*compress(places, is_read)], [*compress(revisions, is_read)]
        return PodsRead(places, revisions, pods)

    def _shapes_of(self, batch: delta_pb2.DeltaBatch, columns: PodColumns) -> list[_Shape | None]:
        """The shape of each pod; None: the pod is invalid."""
        ops, known = batch.ops, self._shapes
        found: list[_Shape | None] = []
        last_key, shape = b"", None
        for place, key in zip(columns.places, columns.keys, strict=True):
            # Consecutive pods often have the same shape.
            if key != last_key:
                last_key, shape = key, known.get(key)
                if shape is None:
                    shape = self._read_shape(ops[place].upsert.object.pod, key)
            found.append(shape)
        return found

    def _read_shape(self, message: pod_pb2.Pod, key: bytes) -> _Shape | None:
        try:
            shape = _shape_of(read_pod(message, self._read_spec))
        except FieldError:
            return None
        if len(key) <= self.LARGEST_KEY_BYTES:
            if len(self._shapes) >= self._limit:
                # Existing pods keep their labels. Only later pods do not share them.
                self._shapes.clear()
            self._shapes[key] = shape
        return shape


def _conditions(
    batch: delta_pb2.DeltaBatch, columns: PodColumns, shapes: list[_Shape | None]
) -> Sequence[tuple[PodCondition, ...]]:
    """The conditions of each pod, with their times."""
    known = [() if shape is None else shape.conditions for shape in shapes]
    counts = [len(conditions) for conditions in known]
    if not any(counts):
        return known
    column = columns.condition_times_ns
    if column is not None and None not in shapes and sum(counts) == len(column):
        times: Iterator[int] = iter(column)
    else:
        # Some conditions have no time, so the column does not show which time belongs to which.
        ops = batch.ops
        times = (
            read_time("transition_time", condition.transition_time)
            for place, count in zip(columns.places, counts, strict=True)
            if count
            for condition in ops[place].upsert.object.pod.conditions
        )
    return [_with_times(conditions, times) if conditions else () for conditions in known]


def _with_times(
    conditions: tuple[PodCondition, ...], times: Iterator[int]
) -> tuple[PodCondition, ...]:
    """The conditions with the next times."""
    return tuple(
        c
        if c.transition_time_ns == at_ns
        else PodCondition(c.type, c.status, c.reason, c.message, at_ns)
        # Conditions come first, so that zip consumes no extra time at the end.
        for c, at_ns in zip(conditions, times, strict=False)
    )
