"""Digests: a count and a sum of hashes for each kind, compared to find drift."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from pumice.server.wire import READ_KINDS
from pumice.v1 import delta_pb2, object_pb2


def hash64(uid: str, revision: int) -> bytes:
    """The hash of an object: 8 bytes, big-endian."""
    return blake2b(f"{uid}\0{revision}".encode(), digest_size=8).digest()


class KindSums:
    """The uids and hashes of all objects, including rejected ones, by kind.

    The sum of a kind is computed when it is needed, which is rare.
    """

    def __init__(self) -> None:
        self._hashes: dict[int, dict[str, bytes]] = {}
        # Sums of kinds that have not changed since their sum was computed.
        self._sums: dict[int, int] = {}

    def _hashes_to_change(self, kind: int) -> dict[str, bytes]:
        self._sums.pop(kind, None)
        hashes = self._hashes.get(kind)
        if hashes is None:
            hashes = self._hashes[kind] = {}
        return hashes

    def put(self, kind: int, uid: str, revision: int) -> None:
        self._hashes_to_change(kind)[uid] = hash64(uid, revision)

    def put_many(self, kind: int, uids: Sequence[str], revisions: Iterable[int]) -> None:
        if not uids:
            return
        hashes = [
            blake2b(f"{uid}\0{revision}".encode(), digest_size=8).digest()
            for uid, revision in zip(uids, revisions, strict=True)
        ]
        self._hashes_to_change(kind).update(zip(uids, hashes, strict=True))

    def drop(self, kind: int, uid: str) -> None:
        if uid in self._hashes.get(kind, ()):
            del self._hashes_to_change(kind)[uid]

    def uids(self, kind: int) -> list[str]:
        return list(self._hashes.get(kind, ()))

    def total(self) -> int:
        """The number of objects of all kinds."""
        return sum(map(len, self._hashes.values()))

    def counts(self) -> dict[int, int]:
        return {kind: len(hashes) for kind, hashes in sorted(self._hashes.items())}

    def differing(
        self, digests: Iterable[delta_pb2.KindDigest], kinds: Iterable[int] = ()
    ) -> list[int]:
        """Kinds whose digest differs, out of ``kinds`` or of all kinds.

        A kind without a digest is empty. Kinds that this core does not read are never compared.
        """
        sent: dict[int, tuple[int, int]] = {d.kind: (d.count, d.sum) for d in digests}
        compared = (set(kinds) or (set(sent) | set(self._hashes))) & READ_KINDS
        return sorted(
            kind for kind in compared if sent.get(kind, (0, 0)) != self._count_and_sum(kind)
        )

    def _count_and_sum(self, kind: int) -> tuple[int, int]:
        hashes = self._hashes.get(kind)
        if not hashes:
            return 0, 0
        total = self._sums.get(kind)
        if total is None:
            numbers = np.frombuffer(b"".join(hashes.values()), dtype=">u8")
            # The sum is modulo 2^64.
            total = self._sums[kind] = int(numbers.astype(np.uint64).sum())
        return len(hashes), total

    def write(self) -> list[delta_pb2.KindDigest]:
        written = []
        for kind in sorted(self._hashes):
            count, total = self._count_and_sum(kind)
            if count:
                number = object_pb2.Kind.ValueType(kind)
                written.append(delta_pb2.KindDigest(kind=number, count=count, sum=total))
        return written
