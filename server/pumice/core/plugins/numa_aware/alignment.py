"""The cpus that the kubelet would assign to a container, and whether it would admit the container.

The choice of cpus is that of the kubelet's cpu manager, with Volcano's changes. A set of cpus is an
integer with a bit for each cpu.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple

from pumice.core.model.topology import NumaCpu, NumaTopology

# The largest number in a cpu list; a list with a larger number is invalid.
MAX_CPU = 4096
# The kubelet aligns to at most this many NUMA nodes.
MAX_NUMA_NODES = 8
# Go sorts up to this many elements by insertion.
_INSERTION_LIMIT = 12
# Cores are compared by the taken cpus of their socket, its free cpus, the free cpus of the core, the
# socket, and the core.
_CoreKey = tuple[int, int, int, int, int]
BEST_EFFORT, RESTRICTED, SINGLE = "best-effort", "restricted", "single-numa-node"
_STRICT = (RESTRICTED, SINGLE)


def bits(numbers: Iterable[int]) -> int:
    result = 0
    for number in numbers:
        result |= 1 << number
    return result


def numbers_in(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@lru_cache(maxsize=16_384)
def read_cpus(text: str) -> int | None:
    """Parses a cpu list such as ``0-3,8``; None: it is invalid."""
    found = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        ends = [first, last] if dash else [first, first]
        if not all(
            end.isascii() and end.isdigit() and len(end) <= len(str(MAX_CPU)) for end in ends
        ):
            return None
        low, high = int(ends[0]), int(ends[1])
        if high < low or high > MAX_CPU:
            return None
        found |= (1 << (high + 1)) - (1 << low)
    return found


def write_cpus(mask: int) -> str:
    return ",".join(str(cpu) for cpu in numbers_in(mask))


@dataclass(frozen=True, eq=False)
class Layout:
    """The cpus of a node, and the policies of its kubelet; equal nodes share a layout."""

    cpus: tuple[NumaCpu, ...]
    static: bool
    # The policy of the topology manager.
    policy: str
    # Whether the topology lists the resource cpu.
    has_cpus: bool
    # The number of cpus that the kubelet reserves for the system.
    reserved_count: int

    @cached_property
    def all(self) -> int:
        return bits(cpu.cpu for cpu in self.cpus)

    @cached_property
    def by_numa(self) -> dict[int, int]:
        return self._by("numa")

    @cached_property
    def by_socket(self) -> dict[int, int]:
        return self._by("socket")

    @cached_property
    def by_core(self) -> dict[int, int]:
        """The cpus by core number; cores of different sockets with the same number count as one."""
        return self._by("core")

    def _by(self, part: str) -> dict[int, int]:
        found: dict[int, int] = {}
        for cpu in self.cpus:
            number = getattr(cpu, part)
            found[number] = found.get(number, 0) | 1 << cpu.cpu
        return dict(sorted(found.items()))

    @cached_property
    def socket_of(self) -> dict[int, int]:
        return {cpu.cpu: cpu.socket for cpu in self.cpus}

    @cached_property
    def cpus_per_socket(self) -> int:
        return len(self.cpus) // max(len(self.by_socket), 1)

    @cached_property
    def cpus_per_core(self) -> int:
        cores = {(cpu.socket, cpu.core) for cpu in self.cpus}
        return len(self.cpus) // max(len(cores), 1)

    def numa_count(self, cpus: int) -> int:
        """The number of NUMA nodes that have some of these cpus."""
        return sum(1 for mask in self.by_numa.values() if mask & cpus)


_shared_layout = lru_cache(maxsize=1024)(Layout)


def layout_of(topology: NumaTopology) -> Layout | None:
    """The layout; None: a cpu occurs twice or is out of range, or there are too many NUMA nodes."""
    numbers = [cpu.cpu for cpu in topology.cpus]
    parts = [n for cpu in topology.cpus for n in (cpu.cpu, cpu.numa, cpu.socket, cpu.core)]
    if len(set(numbers)) != len(numbers) or any(not 0 <= n <= MAX_CPU for n in parts):
        return None
    if len({cpu.numa for cpu in topology.cpus}) > MAX_NUMA_NODES:
        return None
    reserved = dict(topology.reserved).get("cpu", 0)
    return _shared_layout(
        tuple(sorted(topology.cpus, key=lambda cpu: cpu.cpu)),
        topology.policies.get("CPUManagerPolicy") == "static",
        topology.policies.get("TopologyManagerPolicy", ""),
        "cpu" in topology.resources,
        -(-reserved // 1000),
    )


def take(layout: Layout, available: int, count: int) -> int | None:
    """Chooses ``count`` of the available cpus: whole sockets, then whole cores, then single cpus.

    None: there are too few.
    """
    if count < 1:
        return 0
    free = available & layout.all
    if count > free.bit_count():
        return None
    taken = 0
    steps = ((_sockets, layout.cpus_per_socket), (_cores, layout.cpus_per_core), (_single, 1))
    for step, size in steps:
        for cpus in step(layout, free, taken) if count >= size else ():
            taken |= cpus
            free &= ~cpus
            count -= cpus.bit_count()
            if count < 1:
                return taken
            if count < size:
                break
    return None


def _sockets(layout: Layout, free: int, _taken: int) -> Iterator[int]:
    """The free cpus of each socket. As in Volcano, the cpu with the number of the socket must be free."""
    for socket, cpus in layout.by_socket.items():
        if cpus & free and free >> socket & 1:
            yield cpus & free


def _cores(layout: Layout, free: int, _taken: int) -> Iterator[int]:
    """The free cpus of each core, the socket with the fewest cores first.

    As in Volcano, the cpu with the number of the core must be free.
    """
    by_socket = []
    for socket, cpus in layout.by_socket.items():
        free_cpus = cpus & free
        cores = [c for c, mask in layout.by_core.items() if mask & free_cpus and free >> c & 1]
        if free_cpus:
            by_socket.append((len(cores), socket, cores))
    for core in dict.fromkeys(core for _, _, cores in sorted(by_socket) for core in cores):
        yield layout.by_core[core] & free


def _single(layout: Layout, free: int, taken: int) -> Iterator[int]:
    keys: list[_CoreKey] = []
    for core, mask in layout.by_core.items():
        if mask & free:
            socket = layout.socket_of[next(numbers_in(mask))]
            on_socket = layout.by_socket[socket]
            keys.append(
                (
                    (on_socket & taken).bit_count(),
                    (on_socket & free).bit_count(),
                    (mask & free).bit_count(),
                    socket,
                    core,
                )
            )
    for key in _sorted(keys):
        for cpu in numbers_in(layout.by_core[key[-1]] & free):
            yield 1 << cpu


def _sorted(keys: list[_CoreKey]) -> list[_CoreKey]:
    """Sorts cores like Go: Volcano's comparison is not transitive, so that the algorithm matters."""
    if len(keys) > _INSERTION_LIMIT:
        return sorted(keys, key=lambda key: (-key[0], *key[1:]))
    result = list(keys)
    for end in range(1, len(result)):
        i = end
        while i > 0 and _is_before(result[i], result[i - 1]):
            result[i], result[i - 1] = result[i - 1], result[i]
            i -= 1
    return result


def _is_before(left: _CoreKey, right: _CoreKey) -> bool:
    return left[0] > right[0] or any(left[part] < right[part] for part in range(1, 5))


class Hint(NamedTuple):
    """A topology hint: a set of NUMA nodes, with a bit for each, and whether it is preferred."""

    nodes: int
    preferred: bool


class Alignment(NamedTuple):
    """The cpus of a pod, or the index of the first container that is not admitted."""

    cpus: int
    refused: int = -1


def align(layout: Layout, free: int, requests: tuple[int, ...]) -> Alignment:
    """Aligns one container after the other; a request is a number of cpus, and 0 pins no cpu."""
    reserved = take(layout, layout.all, layout.reserved_count) or 0
    pinned = 0
    for number, count in enumerate(requests):
        hint = _best_hint(layout, free & ~reserved, count)
        if hint is None:
            return Alignment(0, number)
        cpus = _pin(layout, free & ~reserved, count, hint)
        pinned |= cpus
        free &= ~cpus
    return Alignment(pinned)


def _best_hint(layout: Layout, available: int, count: int) -> Hint | None:
    """The NUMA nodes to align to; None: the kubelet would not admit the container."""
    everywhere = bits(layout.by_numa)
    if count == 0 or not layout.has_cpus:
        hints = [Hint(everywhere, preferred=True)]
    else:
        hints = _hints(layout, available, count) or [Hint(everywhere, preferred=False)]
        if layout.policy == SINGLE:
            hints = [h for h in hints if h.preferred and h.nodes.bit_count() == 1]
    best = Hint(everywhere, preferred=False)
    for hint in hints:
        if hint.nodes and _is_better(hint, best):
            best = hint
    return best if best.preferred or layout.policy not in _STRICT else None


def _is_better(hint: Hint, best: Hint) -> bool:
    if hint.preferred != best.preferred:
        return hint.preferred
    return (hint.nodes.bit_count(), hint.nodes) < (best.nodes.bit_count(), best.nodes)


def _hints(layout: Layout, available: int, count: int) -> list[Hint]:
    """The sets of NUMA nodes with enough free cpus.

    A set is preferred if it is as small as the smallest set with enough cpus, free or not.
    """
    nodes = list(layout.by_numa)
    smallest = len(nodes)
    found = []
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(nodes, size):
            cpus = 0
            for node in chosen:
                cpus |= layout.by_numa[node]
            if cpus.bit_count() >= count:
                smallest = min(smallest, size)
            if (cpus & available).bit_count() >= count:
                found.append(bits(chosen))
    return [Hint(mask, mask.bit_count() == smallest) for mask in found]


def _pin(layout: Layout, available: int, count: int, hint: Hint) -> int:
    """Chooses cpus of the given NUMA nodes first, then of others; none if there are too few."""
    aligned = 0
    for node in numbers_in(hint.nodes):
        aligned |= layout.by_numa[node] & available
    first = take(layout, aligned, min(count, aligned.bit_count()))
    if first is None:
        return 0
    rest = take(layout, available & ~first, count - first.bit_count())
    return 0 if rest is None else first | rest
