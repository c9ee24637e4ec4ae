"""Small batches that wait behind each other are taken in as one, and nothing else is."""

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from pumice.server import received_batches
from pumice.server.received_batches import ReceivedBatch
from pumice.v1 import delta_pb2, object_pb2


class Cluster:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.taken: list[tuple[object, int, list[str], int]] = []

    def apply_batch(
        self, stream: object, batch: delta_pb2.DeltaBatch, last_seq: int, large: object
    ) -> None:
        uids = [op.tombstone.uid for op in batch.ops]
        self.taken.append((stream, batch.first_seq, uids, last_seq))


def batch(first_seq: int, *uids: str) -> delta_pb2.DeltaBatch:
    ops = [delta_pb2.Op(tombstone=object_pb2.ObjectRef(uid=uid)) for uid in uids]
    return delta_pb2.DeltaBatch(first_seq=first_seq, ops=ops)


def run(cluster: Cluster, *calls: Callable[[], None] | tuple[str, delta_pb2.DeltaBatch]) -> Cluster:
    """As an owner does that finds all of these waiting."""
    waiting: deque[Callable[[], None]] = deque()
    for call in calls:
        if not isinstance(call, tuple):
            waiting.append(call)
            continue
        stream, told = call
        last_seq = told.first_seq + len(told.ops) - 1
        waiting.append(ReceivedBatch(cast(Any, cluster), cast(Any, stream), told, last_seq, {}))
    while waiting:
        first = waiting.popleft()
        if isinstance(first, ReceivedBatch):
            first.merge(waiting)
        first()
    return cluster


def test_batches_of_one_stream_are_one_batch() -> None:
    one, two, three = batch(7, "a", "b"), batch(9, "c"), batch(10, "d", "e")
    cluster = run(Cluster(), ("s", one), ("s", two), ("s", three))
    assert cluster.taken == [("s", 7, ["a", "b", "c", "d", "e"], 11)]
    # They may be held by others, and stay as they were.
    assert one == batch(7, "a", "b")


def test_what_stands_between_two_batches_stays_there() -> None:
    cluster = Cluster()
    marker = lambda: cluster.taken.append(("marker", 0, [], 0))  # noqa: E731
    run(cluster, ("s", batch(1, "a")), marker, ("s", batch(2, "b")))
    assert [stream for stream, *_ in cluster.taken] == ["s", "marker", "s"]


def test_batches_of_another_stream_wait_for_their_turn() -> None:
    cluster = run(Cluster(), ("s", batch(1, "a")), ("t", batch(1, "b")), ("t", batch(2, "c")))
    assert cluster.taken == [("s", 1, ["a"], 1), ("t", 1, ["b", "c"], 2)]


def test_a_duplicate_is_acknowledged_by_itself() -> None:
    calls = [("s", batch(1, "a")), ("s", batch(2)), ("s", batch(2, "b"))]
    cluster = run(Cluster(), *calls)
    assert cluster.taken == [("s", 1, ["a"], 1), ("s", 2, [], 1), ("s", 2, ["b"], 2)]


def test_not_more_than_a_batch_may_hold_is_put_together() -> None:
    half = received_batches.MAX_OPS_MERGED // 2
    calls = [("s", batch(1 + half * n, *("u" for _ in range(half)))) for n in range(5)]
    assert [len(uids) for _, _, uids, _ in run(Cluster(), *calls).taken] == [
        2 * half,
        2 * half,
        half,
    ]


def test_large_objects_stay_in_their_own_batches() -> None:
    large = "u" * (received_batches.MAX_BYTES_MERGED // 2)
    cluster = run(Cluster(), *(("s", batch(n, large)) for n in (1, 2, 3)))
    assert [(first, last) for _, first, _, last in cluster.taken] == [(1, 1), (2, 2), (3, 3)]
