"""Picks cpus as the kubelet's cpu manager does, with the changes that Volcano made to it."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.core.plugins.numa_aware.layout import Layout, numbers_in

# Up to so many elements Go sorts by insertion, whatever the comparison is like.
_INSERTION_LIMIT = 12
# What cores are compared by: cpus taken on their socket, free ones there, free ones on the core,
# the socket, the core.
_CoreKey = tuple[int, int, int, int, int]


def take(layout: Layout, available: int, count: int) -> int | None:
    """So many of the available cpus, close together; None: there are too few."""
    if count < 1:
        return 0
    free = available & layout.all
    if count > free.bit_count():
        return None
    taken = 0
    for step in (_sockets, _cores, _single):
        for cpus in step(layout, free, taken, count):
            taken |= cpus
            free &= ~cpus
            count -= cpus.bit_count()
            if count < 1:
                return taken
            if step is not _single and count < _size(step, layout):
                break
    return None


def _size(step: object, layout: Layout) -> int:
    return layout.cpus_per_socket if step is _sockets else layout.cpus_per_core


def _sockets(layout: Layout, free: int, taken: int, count: int) -> Iterator[int]:
    """The free cpus of sockets. Volcano finds free sockets by comparing their numbers with cpus'."""
    if count < layout.cpus_per_socket:
        return
    for socket, cpus in layout.by_socket.items():
        if cpus & free and free >> socket & 1:
            yield cpus & free


def _cores(layout: Layout, free: int, taken: int, count: int) -> Iterator[int]:
    """The free cpus of cores, from the socket with the fewest. Numbers are compared as above."""
    if count < layout.cpus_per_core:
        return
    found = []
    for socket, cpus in layout.by_socket.items():
        here = cpus & free
        cores = [c for c, mask in layout.by_core.items() if mask & here and free >> c & 1]
        if here:
            found.append((len(cores), socket, cores))
    done: set[int] = set()
    for _, _, cores in sorted(found):
        for core in cores:
            if core not in done:
                done.add(core)
                yield layout.by_core[core] & free


def _single(layout: Layout, free: int, taken: int, count: int) -> Iterator[int]:
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
    """The order of cores. Volcano's comparison is no order; its result depends on the sort."""
    if len(keys) > _INSERTION_LIMIT:
        return sorted(keys, key=lambda key: (-key[0], *key[1:]))
    result = list(keys)
    for end in range(1, len(result)):
        place = end
        while place > 0 and _is_before(result[place], result[place - 1]):
            result[place], result[place - 1] = result[place - 1], result[place]
            place -= 1
    return result


def _is_before(left: _CoreKey, right: _CoreKey) -> bool:
    return left[0] > right[0] or any(left[part] < right[part] for part in range(1, 5))
