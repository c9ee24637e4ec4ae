"""Engines with a generated cluster, and timed sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pumice.bench.results import quiet_memory, seconds
from pumice.core import kernel
from pumice.core.configuration import DEFAULT_CONFIGURATION, Configuration
from pumice.core.decisions import Bind, Evict, SessionResult
from pumice.core.deltas import ClusterObject, Delta, Upserted
from pumice.core.engine import Engine
from pumice.core.registry import Registry
from pumice.core.session.timings import Timings

NOW_NS = 1_800_000_000 * 10**9
SECOND_NS = 10**9
INSIDE = "inside the engine, one process, caches cold"


def kernels() -> tuple[str, ...]:
    """The available implementations of row computations: compiled kernel and NumPy."""
    return ("numpy",) if kernel.rows is None else ("compiled", "numpy")


@contextmanager
def using_kernel(kernel_name: str) -> Iterator[None]:
    """Engines that are created in this context use the given implementation."""
    held = kernel.rows
    if kernel_name == "numpy":
        kernel.rows = None
    try:
        yield
    finally:
        kernel.rows = held


def engine_with(
    objects: Iterable[ClusterObject],
    configuration: Configuration = DEFAULT_CONFIGURATION,
    registry: Registry | None = None,
) -> Engine:
    """An engine with these objects, which measures actions and plugins as in a core."""
    engine = Engine(configuration, registry=registry)
    engine.timings = Timings(time.monotonic_ns)
    rejected = engine.apply(Upserted(item) for item in objects)
    assert not rejected, rejected[0]
    return engine


def timed(engine: Engine, now_ns: int = NOW_NS) -> tuple[float, float, SessionResult]:
    """Wall time and CPU time of a session in seconds, and its result; it is never skipped."""
    results: list[SessionResult] = []
    with quiet_memory():
        before = time.process_time()
        took = seconds(lambda: results.append(engine.schedule(now_ns)))
        used = time.process_time() - before
    return took, used, results[0]


def times_in(result: SessionResult) -> dict[str, dict[str, float]]:
    """Milliseconds by action, and by plugin and action; a plugin's time covers its functions only."""
    actions, plugins = dict[str, float](), dict[str, float]()
    for timing in result.timings:
        name = f"{timing.plugin} in {timing.action}" if timing.plugin else timing.action
        (plugins if timing.plugin else actions)[name] = round(timing.duration_ns / 1e6, 3)
    return {"actions_ms": actions, "plugins_ms": plugins}


def bound_in(result: SessionResult) -> int:
    return sum(isinstance(decision, Bind) for decision in result.decisions)


def evicted_in(result: SessionResult) -> int:
    return sum(isinstance(decision, Evict) for decision in result.decisions)


@dataclass(slots=True)
class Sessions:
    """Times of several sessions of one engine, and the maximum of each count of work."""

    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    # Seconds to apply the changes before each session.
    apply_seconds: list[float] = field(default_factory=list)
    bound: int = 0
    work: dict[str, int] = field(default_factory=dict)

    def add(self, took: float, used: float, result: SessionResult) -> None:
        self.times.append(took)
        self.cpu.append(used)
        self.bound += bound_in(result)
        for name, count in result.work.items():
            self.work[name] = max(count, self.work.get(name, 0))


def sessions_after(
    engine: Engine, rounds: int, changes: Callable[[int], Iterable[Delta]]
) -> Sessions:
    """Runs a session for each round, after the changes of the round."""
    found = Sessions()
    for number in range(rounds):
        deltas = [*changes(number)]
        began = time.perf_counter()
        rejected = engine.apply(deltas)
        found.apply_seconds.append(time.perf_counter() - began)
        assert not rejected, rejected[0]
        found.add(*timed(engine, round_ns(number)))
    return found


def round_ns(number: int) -> int:
    """The time of the session of a round."""
    return NOW_NS + (number + 10) * SECOND_NS
