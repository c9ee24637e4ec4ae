"""Sharding of nodes, pods and PodGroups among several schedulers."""

from bisect import bisect_right
from collections.abc import Mapping
from zlib import crc32

_POINTS = 20


class HashRing:
    """A consistent-hash ring with the same points as that of Volcano.

    Each member has twenty points: the CRC-32 of the number of the point followed by the name of the
    member. A key belongs to the member with the next point above the CRC-32 of the key.
    """

    def __init__(self, members: list[str]) -> None:
        if not members:
            raise ValueError("a hash ring needs at least one member")
        points = {
            crc32(f"{number}{member}".encode()): member
            for member in members
            for number in range(_POINTS)
        }
        self._points = sorted(points)
        self._members = [points[point] for point in self._points]

    def owner(self, key: str) -> str:
        at = bisect_right(self._points, crc32(key.encode()))
        return self._members[at % len(self._members)]


class Shard:
    """The part of a ring that belongs to this scheduler."""

    def __init__(self, name: str, count: int) -> None:
        base, dash, number = name.rpartition("-")
        if not dash or not number.isdigit():
            raise ValueError(
                f"SCHEDULER_POD_NAME is {name!r}; it must end in a number, such as volcano-0"
            )
        if int(number) >= count:
            raise ValueError(f"SCHEDULER_POD_NAME is {name!r}, but SCHEDULER_NUM is {count}")
        self.name = name
        self._ring = HashRing([f"{base}-{index}" for index in range(count)])

    def has(self, key: str) -> bool:
        return self._ring.owner(key) == self.name


def shard_from(environment: Mapping[str, str]) -> Shard | None:
    """The shard from environment variables; None: no sharding. Raises ValueError."""
    if environment.get("MULTI_SCHEDULER_ENABLE", "").lower() != "true":
        return None
    text = environment.get("SCHEDULER_NUM", "1")
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"SCHEDULER_NUM is {text!r}; it must be a number of at least 1")
    return Shard(environment.get("SCHEDULER_POD_NAME", ""), int(text))
