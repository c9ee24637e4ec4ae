"""Limits and scores of rows that follow from states which plugins keep, as arrays for the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.session.feasibility.terms import Limits, limits_of, steps_of
from pumice.core.session.policies import KernelStates

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassAnswers
    from pumice.core.session.hooks import Chains

# Tasks are counted up to a multiple of this.
_FIRST_DEPTH = 4
_FIRST_STEPS = 256
_UNKNOWN = -1.0
# With more steps than this, those that no row has are forgotten before the next session.
_MOST_STEPS = 65_536


class _ByState:
    """Values of one rule by the number of the state, computed when they are first asked for."""

    __slots__ = ("_values", "states")

    def __init__(self, states: KernelStates) -> None:
        self.states = states
        self._values: Floats = np.full(64, _UNKNOWN)

    def of(self, rows: NDArray[np.intp], value: Callable[[int], float]) -> Floats:
        numbers = self.states.numbers(rows)
        most = int(numbers.max())
        if most >= len(self._values):
            more = np.full(max(most + 1, 2 * len(self._values)) - len(self._values), _UNKNOWN)
            self._values = np.concatenate((self._values, more))
        found: Floats = self._values[numbers]
        if found.min() < 0:
            for number in dict.fromkeys(numbers[found < 0].tolist()):
                self._values[number] = value(number)
            found = self._values[numbers]
        return found


class RowLimits:
    """A limit by row, and scores by the number of tasks, in arrays that the kernel reads."""

    __slots__ = (
        *("_class", "_depth", "_known", "_limits", "_most"),
        *("_places", "_scores", "_starts_over", "_steps", "_used"),
    )

    def __init__(
        self, class_: TaskClass, table: NodeTable, chains: Chains, answers: ClassAnswers
    ) -> None:
        self._class = class_
        self._depth = _FIRST_DEPTH
        self._limits: list[_ByState] = []
        self._scores: _ByState | None = None
        # Where the steps begin, by their scores, and how much of the array is used.
        self._known: dict[tuple[float, ...], int] = {}
        self._used = 0
        self._starts_over = False
        self.reuse(chains, answers)
        rows, has_steps = len(table), self._scores is not None
        self._most: Floats = np.zeros(rows)
        self._places: NDArray[np.int64] = np.zeros(rows if has_steps else 0, dtype=np.int64)
        self._steps: Floats = np.zeros(_FIRST_STEPS if has_steps else 0)

    def reuse(self, chains: Chains, answers: ClassAnswers) -> None:
        """A new session has states of its own."""
        self._limits = [_ByState(kept) for kept in limits_of(self._class, chains, answers)]
        steps = steps_of(self._class, chains, answers)
        self._scores = None if steps is None else _ByState(steps)
        self._starts_over = self._starts_over or self._used > _MOST_STEPS

    @property
    def arrays(self) -> Limits:
        return (self._most, self._places, self._steps)

    @property
    def holds(self) -> bool:
        """Whether there are rules exactly where there were some."""
        return bool(self._limits) and (self._scores is not None) == bool(len(self._steps))

    def fill(self, rows: NDArray[np.intp]) -> bool:
        """Fills in some rows; False: the kernel has to be given other arrays."""
        if not len(rows):
            return True
        if self._starts_over:
            self._starts_over, self._used = False, 0
            self._known.clear()
            rows = np.arange(len(self._most))
        # In place: the kernel's program reads the array.
        limits = [limit.of(rows, self._limit_by(limit.states)) for limit in self._limits]
        self._most[rows] = limits[0] if len(limits) == 1 else np.minimum.reduce(limits)
        if self._scores is None:
            return True
        before = self._steps
        self._places[rows] = self._scores.of(rows, self._place_by(self._scores.states))
        return self._steps is before

    def _limit_by(self, states: KernelStates) -> Callable[[int], float]:
        assert states.most is not None
        most = states.most
        return lambda number: float(most(self._class, number, self._depth))

    def _place_by(self, states: KernelStates) -> Callable[[int], float]:
        assert states.steps is not None
        steps = states.steps
        return lambda number: float(self._place_of(steps(self._class, number, self._depth)))

    def _place_of(self, scores: tuple[float, ...]) -> int:
        place = self._known.get(scores)
        if place is None:
            place = self._known[scores] = self._used
            self._used += len(scores)
            if self._used > len(self._steps):
                more = np.zeros(max(self._used, len(self._steps)))
                self._steps = np.concatenate((self._steps, more))
            self._steps[place : self._used] = scores
        return place

    def deepen(self, count: int, chains: Chains, answers: ClassAnswers) -> bool:
        """Counts so many tasks at least; the result is as for ``fill``."""
        if count <= self._depth:
            return True
        self._depth = -(-count // _FIRST_DEPTH) * _FIRST_DEPTH
        self.reuse(chains, answers)
        return self.fill(np.arange(len(self._most)))
