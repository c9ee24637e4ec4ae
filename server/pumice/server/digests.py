"""What a cluster holds, in a count and a sum a kind: how two sides find out that they differ."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct

from pumice.v1 import delta_pb2, object_pb2

_MASK = 2**64 - 1
_as_number = Struct(">Q").unpack


def hash64(uid: str, revision: int) -> int:
    digest = blake2b(f"{uid}\0{revision}".encode(), digest_size=8).digest()
    number: int = _as_number(digest)[0]
    return number


class KindSums:
    """The uids and hashes of every object that was told, good or set aside, of any kind."""

    def __init__(self) -> None:
        self._hashes: dict[int, dict[str, int]] = {}
        # Exact; only what is compared is cut to 64 bits.
        self._sums: dict[int, int] = {}

    def put(self, kind: int, uid: str, revision: int) -> None:
        hashes = self._hashes.get(kind)
        if hashes is None:
            hashes = self._hashes[kind] = {}
            self._sums[kind] = 0
        new = hash64(uid, revision)
        self._sums[kind] += new - hashes.get(uid, 0)
        hashes[uid] = new

    def drop(self, kind: int, uid: str) -> None:
        hashes = self._hashes.get(kind, {})
        if uid in hashes:
            self._sums[kind] -= hashes.pop(uid)

    def uids(self, kind: int) -> list[str]:
        return list(self._hashes.get(kind, ()))

    def counts(self) -> dict[int, int]:
        return {kind: len(hashes) for kind, hashes in sorted(self._hashes.items())}

    def differing(
        self, digests: Iterable[delta_pb2.KindDigest], kinds: Iterable[int] = ()
    ) -> list[int]:
        """Kinds that differ; of those named only, or of all. A kind that is not told is empty."""
        told: dict[int, tuple[int, int]] = {d.kind: (d.count, d.sum) for d in digests}
        compared = set(kinds) or (set(told) | set(self._hashes))
        return sorted(
            kind for kind in compared if told.get(kind, (0, 0)) != self._count_and_sum(kind)
        )

    def _count_and_sum(self, kind: int) -> tuple[int, int]:
        return len(self._hashes.get(kind, ())), self._sums.get(kind, 0) & _MASK

    def write(self) -> list[delta_pb2.KindDigest]:
        return [
            delta_pb2.KindDigest(
                kind=object_pb2.Kind.ValueType(kind),
                count=len(hashes),
                sum=self._sums[kind] & _MASK,
            )
            for kind, hashes in sorted(self._hashes.items())
            if hashes
        ]
