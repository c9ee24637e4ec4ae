"""Digests: a count and a sum of hashes per kind, compared to find drift."""

import hashlib
from collections.abc import Collection, Iterable

from pumice.adapters.runtime.objects import KindNumber
from pumice.v1.delta_pb2 import KindDigest

_MODULUS = 1 << 64


def hash64(uid: str, revision: int) -> int:
    data = b"%b\0%d" % (uid.encode(), revision)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


class DigestTable:
    """The count and sum of every kind, updated with each object."""

    def __init__(self) -> None:
        self._counts: dict[KindNumber, int] = {}
        self._sums: dict[KindNumber, int] = {}

    def add(self, kind: KindNumber, count: int, hash_sum: int) -> None:
        """Adds to the digest of a kind. Negative values subtract a deleted object."""
        self._counts[kind] = self._counts.get(kind, 0) + count
        self._sums[kind] = (self._sums.get(kind, 0) + hash_sum) % _MODULUS

    def clear(self, kinds: Collection[KindNumber]) -> None:
        """Clears some kinds, or all kinds if ``kinds`` is empty."""
        for kind in list(kinds) or list(self._counts):
            self._counts.pop(kind, None)
            self._sums.pop(kind, None)

    def copy(self) -> "DigestTable":
        other = DigestTable()
        other._counts = dict(self._counts)
        other._sums = dict(self._sums)
        return other

    def messages(self, kinds: Collection[KindNumber] = ()) -> list[KindDigest]:
        """The digests of some kinds, or of all kinds with objects."""
        wanted = sorted(kinds) if kinds else sorted(k for k, n in self._counts.items() if n)
        return [
            KindDigest(kind=kind, count=self._counts.get(kind, 0), sum=self._sums.get(kind, 0))
            for kind in wanted
        ]


def digests_of(objects: Iterable[tuple[KindNumber, str, int]]) -> list[KindDigest]:
    """Digests computed from (kind, uid, revision) of all objects."""
    table = DigestTable()
    for kind, uid, revision in objects:
        table.add(kind, 1, hash64(uid, revision))
    return table.messages()
