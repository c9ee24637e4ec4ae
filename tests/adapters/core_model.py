"""What a core would hold, by the rules of the stream: the measure for all that an adapter sends."""

from pumice.adapters.runtime.digests import digests_of
from pumice.adapters.runtime.objects import KindNumber, ObjectKey, identity
from pumice.v1.cluster_service_pb2 import ConnectRequest, SnapshotBegin, SnapshotEnd
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Outcome
from pumice.v1.delta_pb2 import KindDigest, Op
from pumice.v1.object_pb2 import ClusterObject


class CoreModel:
    """Applies requests and refuses what breaks the rules."""

    def __init__(self, applied_seq: int | None = None) -> None:
        self.objects: dict[ObjectKey, tuple[int, ClusterObject]] = {}
        self.outcomes: list[Outcome] = []
        self.configurations: list[Configuration] = []
        self.configuration_seqs: list[int] = []
        self.applied_seq = applied_seq or 0
        self.digests: list[tuple[int, list[KindDigest]]] = []
        self.snapshots = 0
        self._snapshot: tuple[list[KindNumber], dict[ObjectKey, tuple[int, ClusterObject]]] | None
        self._snapshot = None
        self._seq_before_snapshot = 0

    def take(self, request: ConnectRequest) -> None:
        match request.WhichOneof("message"):
            case "delta_batch":
                batch = request.delta_batch
                self._take_ops(batch.first_seq, list(batch.ops))
            case "snapshot_begin":
                self._begin(request.snapshot_begin)
            case "snapshot_end":
                self._end(request.snapshot_end)
            case "digest":
                assert self._snapshot is None
                assert request.digest.seq == self.applied_seq
                assert list(request.digest.digests) == self.computed_digests()
                self.digests.append((request.digest.seq, list(request.digest.digests)))
            case other:
                raise AssertionError(f"unexpected {other}")

    @property
    def in_snapshot(self) -> bool:
        return self._snapshot is not None

    def stream_ended(self) -> None:
        """A snapshot without an end marker was never there."""
        if self._snapshot is not None:
            self.applied_seq = self._seq_before_snapshot
        self._snapshot = None

    def computed_digests(self) -> list[KindDigest]:
        return digests_of((kind, uid, held[0]) for (kind, uid), held in self.objects.items())

    def _take_ops(self, first_seq: int, ops: list[Op]) -> None:
        assert ops, "an empty batch"
        assert 1 <= first_seq <= self.applied_seq + 1, f"gap: {first_seq} {self.applied_seq}"
        for seq, op in enumerate(ops, first_seq):
            if seq > self.applied_seq:
                # The numbers of a snapshot may begin anywhere.
                self.applied_seq = seq - 1
                self._apply(op)
                self.applied_seq = seq

    def _apply(self, op: Op) -> None:
        target = self.objects if self._snapshot is None else self._snapshot[1]
        match op.WhichOneof("op"):
            case "upsert":
                who = identity(op.upsert.object)
                assert op.upsert.revision > 0
                target[who.kind, who.uid] = (op.upsert.revision, op.upsert.object)
            case "tombstone":
                target.pop((op.tombstone.kind, op.tombstone.uid), None)
            case "outcome":
                self.outcomes.append(op.outcome)
            case "configuration":
                self.configurations.append(op.configuration)
                self.configuration_seqs.append(self.applied_seq + 1)

    def _begin(self, marker: SnapshotBegin) -> None:
        assert self._snapshot is None
        self._seq_before_snapshot = self.applied_seq
        if marker.kinds:
            assert marker.first_seq == self.applied_seq + 1
        else:
            self.applied_seq = marker.first_seq - 1
        self._snapshot = (list(marker.kinds), {})

    def _end(self, marker: SnapshotEnd) -> None:
        assert self._snapshot is not None
        assert marker.seq == self.applied_seq
        kinds, told = self._snapshot
        if kinds:
            assert {kind for kind, _ in told} <= set(kinds)
            told.update({k: v for k, v in self.objects.items() if k[0] not in kinds})
        self.objects, self._snapshot = told, None
        self.snapshots += 1
        computed = {digest.kind: digest for digest in self.computed_digests()}
        for kind in kinds or computed:
            given = [digest for digest in marker.digests if digest.kind == kind]
            assert given == [computed.get(kind, KindDigest(kind=kind))]
