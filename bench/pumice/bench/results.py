"""Results of benchmarks as lines of JSON."""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy

from pumice.core import kernel


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one benchmark."""

    bench: str
    # Description of the measurement.
    measured: str
    figures: Mapping[str, object]
    # Counts of work, the same on every machine.
    work: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        content = {
            "bench": self.bench,
            **self.figures,
            "work": dict(sorted(self.work.items())),
            "measured": self.measured,
            "machine_speed": machine_speed(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "kernel": "numpy" if kernel.rows is None else "compiled",
        }
        return json.dumps(content)


def machine_speed() -> float:
    """Million additions per second in plain Python, to compare runs under different load."""
    count = 1_000_000
    start = time.perf_counter()
    total = 0
    for number in range(count):
        total += number
    return round(count / (time.perf_counter() - start) / 1e6, 1)


@contextmanager
def quiet_memory() -> Iterator[None]:
    """Disables garbage collection, as a core does during a session."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def milliseconds(samples: list[float]) -> dict[str, float]:
    """Median, minimum and maximum of times in seconds."""
    return {
        "median_ms": round(1000 * statistics.median(samples), 3),
        "best_ms": round(1000 * min(samples), 3),
        "worst_ms": round(1000 * max(samples), 3),
    }


def spread(when: str, times: list[float]) -> dict[str, object]:
    """Count, median, 99th percentile and maximum of times in seconds."""
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {
        f"{when}_count": len(ordered),
        f"{when}_median_ms": round(1000 * statistics.median(ordered), 2),
        f"{when}_p99_ms": round(1000 * p99, 2),
        f"{when}_max_ms": round(1000 * ordered[-1], 2),
    }
