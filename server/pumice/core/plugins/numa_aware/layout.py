"""The cpus of a node by NUMA node, socket and core, as sets of bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pumice.core.model.topology import NumaCpu, NumaTopology

# What a cpu list may contain; a larger number is a mistake.
MAX_CPU = 4096
# Kubelets align to no more NUMA nodes than this.
MAX_NUMA_NODES = 8


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
    """A cpu list such as ``0-3,8``; None where it cannot be read."""
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
    """Where the cpus of a node are, and what the kubelet does about it; equal nodes share it."""

    cpus: tuple[NumaCpu, ...]
    static: bool
    # The policy of the topology manager.
    policy: str
    # The resource cpu is listed.
    has_cpus: bool
    # Cpus that the kubelet keeps for itself.
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
        """By the number of the core; cores of two sockets with one number count as one."""
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
        """How many NUMA nodes a set of cpus touches."""
        return sum(1 for mask in self.by_numa.values() if mask & cpus)


_shared_layout = lru_cache(maxsize=1024)(Layout)


def layout_of(topology: NumaTopology) -> Layout | None:
    """None where the topology cannot be used: cpus twice, out of range, or too many NUMA nodes."""
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
