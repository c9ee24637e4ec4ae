"""Generated clusters as messages of the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.core.deltas import ClusterObject
from pumice.core.model.pod import Pod
from pumice.server.wire import write_object, write_upsert
from pumice.v1 import delta_pb2

# Further labels, as pods of real clusters have.
_LABELS = {"team": "bench", "tier": "batch"}


def upsert(item: ClusterObject, revision: int = 1) -> delta_pb2.Op:
    return delta_pb2.Op(upsert=write_upsert(write_object(item), revision))


def labelled(objects: Iterable[ClusterObject], **more: str) -> Iterator[ClusterObject]:
    for item in objects:
        if isinstance(item, Pod):
            yield replace(item, labels={**item.labels, **_LABELS, **more})
        else:
            yield item


def single_pod(number: int, spec_number: int = 0) -> list[ClusterObject]:
    """A new gang of one pod."""
    spec = clusters.plain_spec(spec_number)
    return [*clusters.pending_job(number, 1, spec, "queue-0")]


def running_cluster(size: Size) -> Iterator[ClusterObject]:
    return labelled(clusters.settled(size))


def pending_cluster(size: Size) -> Iterator[ClusterObject]:
    return labelled(clusters.fresh(size))
