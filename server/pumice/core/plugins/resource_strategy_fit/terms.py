"""What resource-strategy-fit computes over rows of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.core.cache.nodes import Floats
from pumice.core.model.fit import Refusal
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.feasibility.terms import mean_use

LEAST, MOST = "LeastAllocated", "MostAllocated"
# A reserve of one unit of memory for one device, which is counted in thousandths, is 10^9 bytes.
_BYTES_PER_THOUSANDTH = 1e6


@dataclass(frozen=True, slots=True)
class FitPart:
    """One resource of a score: what is asked of it, its weight and its strategy."""

    resource: str
    asked: float
    weight: float
    # An unknown strategy gives nothing, and its weight counts all the same.
    strategy: str


@dataclass(frozen=True, slots=True)
class StrategyFit:
    """A row score: the weighted mean over resources, 0 where one of them would be overfull."""

    parts: tuple[FitPart, ...]
    divisor: float
    factor: float

    def evaluate(self, rows: NodeRows) -> Floats:
        parts = [
            (part.resource, part.asked, part.weight, part.strategy == LEAST)
            for part in self.parts
            if part.strategy in (LEAST, MOST)
        ]
        return mean_use(rows, parts, self.divisor, self.factor)


@dataclass(frozen=True, slots=True)
class Reserve:
    """What stays free on a node for each idle device: cores, and units of 10^9 bytes."""

    resource: str
    cores: float
    memory: float


@dataclass(frozen=True, slots=True)
class Reserves:
    """A row predicate: pods without devices leave cpu and memory for the idle devices."""

    reserves: tuple[Reserve, ...]
    milli_cpu: float
    memory: float

    def evaluate(self, rows: NodeRows) -> tuple[Refusal, ...]:
        refusals = []
        refused = np.zeros(len(rows), dtype=np.bool_)
        for reserve in self.reserves:
            column = rows.column(reserve.resource)
            if column is None:
                continue
            idle, offered = rows.idle[column], rows.allocatable[column]
            milli_cpu = rows.idle[_column(rows, CPU)] - self.milli_cpu
            memory = rows.idle[_column(rows, MEMORY)] - self.memory
            short = milli_cpu < idle * reserve.cores
            short |= memory < idle * reserve.memory * _BYTES_PER_THOUSANDTH
            here = short & (offered > 0) & ~refused
            refused |= here
            reason = f"proportional of resource {reserve.resource} check failed"
            refusals.append(Refusal(reason, here, unresolvable=True))
        return tuple(refusals)


def _column(rows: NodeRows, resource: str) -> int:
    column = rows.column(resource)
    assert column is not None
    return column
