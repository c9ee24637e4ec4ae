"""Sizes of the large objects of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pumice.server.limits import LARGE_OBJECT_BYTES
from pumice.server.ops import NumberedOp, NumberedPods
from pumice.v1 import object_pb2

_POD = object_pb2.KIND_POD
_NONE: Mapping[int, int] = {}


def large_ops(sizes: Sequence[int], first_seq: int) -> Mapping[int, int]:
    """The sizes of the large ops of a batch, by sequence number."""
    if not sizes or max(sizes) <= LARGE_OBJECT_BYTES:
        return _NONE
    return {
        first_seq + number: size for number, size in enumerate(sizes) if size > LARGE_OBJECT_BYTES
    }


class LargeObjects:
    """The sizes of a cluster's large objects, and their sum."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[int, str], int] = {}
        self._large_pods = 0
        self.bytes = 0

    def apply(self, ops: Iterable[NumberedOp], large: Mapping[int, int]) -> None:
        """Updates the sizes after ops were applied. ``large`` has sizes by sequence number."""
        if not large and not self._sizes:
            return
        for op in ops:
            if isinstance(op, NumberedPods) and not self._large_pods and not large:
                continue
            for one in op.each():
                if one.uid:
                    size = large.get(one.seq, 0) if one.revision else 0
                    self._put((one.kind, one.uid), size)

    def _put(self, key: tuple[int, str], size: int) -> None:
        old = self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size
        self.bytes += size - old
        if key[0] == _POD:
            self._large_pods += bool(size) - bool(old)
