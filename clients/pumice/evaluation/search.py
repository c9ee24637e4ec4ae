"""A search for better settings, in an order that the seed determines."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from pumice.evaluation.candidate import Candidate, CandidateError, check_configuration
from pumice.evaluation.goals import GoalResult
from pumice.evaluation.overrides import Override, Overrides
from pumice.evaluation.processes import Judge
from pumice.evaluation.ranking import chosen_goals, cost, dominates
from pumice.evaluation.search_space import Body, Dimension
from pumice.v1.configuration_pb2 import Configuration

# Evaluations that are chosen together. The number does not depend on the machine, so that a seed
# gives the same evaluations everywhere.
BATCH = 4
# Attempts to find untried settings, before the search ends.
_ATTEMPTS = 200
# Maximum number of settings in which a new point differs from a good one.
_MOST_CHANGES = 2

# The values of a point by dimension; a missing dimension has the value of the base.
Point = tuple[tuple[str, Any], ...]


@dataclass(slots=True)
class Evaluation:
    """One candidate with the results of its goals."""

    number: int
    point: Point
    candidate: Candidate
    goals: list[GoalResult] = field(default_factory=list)
    # The fault of a plugin, with which the figures are invalid.
    fault: str = ""
    is_best: bool = False

    @property
    def changes(self) -> str:
        return ", ".join(f"{name}={_text(value)}" for name, value in self.point) or "the base"

    @property
    def costs(self) -> list[float]:
        return [cost(goal) for goal in self.goals]


@dataclass(slots=True)
class Search:
    """Varies the settings of a base; the next point depends only on the seed and the results."""

    body: Body
    dimensions: Sequence[Dimension]
    goals: Sequence[str]
    seed: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)
    # Settings that a core refused.
    refused: int = 0

    def run(
        self,
        judge: Judge,
        most: int,
        is_over: Callable[[], bool],
        judged: Callable[[Sequence[Evaluation]], None] = lambda _: None,
    ) -> str:
        """Evaluates at most ``most`` candidates, until ``is_over``; returns why the search ended.

        ``judged`` is called with the evaluations of each batch.
        """
        rng = random.Random(self.seed)
        seen: set[Point] = set()
        points = self._points(rng, seen)
        while len(self.evaluations) < most:
            if self.evaluations and is_over():
                return "the time limit is reached"
            size = 1 if not self.evaluations else min(BATCH, most - len(self.evaluations))
            batch = self._batch(points, size)
            if not batch:
                return "all settings were tried"
            self._judge(judge, batch)
            judged(batch)
        return f"{most} evaluations were made"

    @property
    def best(self) -> list[Evaluation]:
        """Evaluations that no other one dominates; the first of equal ones."""
        return [one for one in self.evaluations if one.is_best]

    def _batch(self, points: Iterator[Point], size: int) -> list[Evaluation]:
        found: list[Evaluation] = []
        while len(found) < size:
            point = next(points, None)
            if point is None:
                break
            candidate = self._candidate(point, len(self.evaluations) + len(found))
            if candidate is None:
                self.refused += 1
                continue
            number = len(self.evaluations) + len(found)
            found.append(Evaluation(number, point, candidate))
        return found

    def _judge(self, judge: Judge, batch: Sequence[Evaluation]) -> None:
        runs = judge([one.candidate for one in batch])
        for one, run in zip(batch, runs, strict=True):
            one.goals = chosen_goals(run, self.goals)
            one.fault = str(run.faults[0]) if run.faults else ""
            self.evaluations.append(one)
        valid = [one for one in self.evaluations if not one.fault]
        for position, one in enumerate(valid):
            equal = any(other.costs == one.costs for other in valid[:position])
            one.is_best = not equal and not any(dominates(o.costs, one.costs) for o in valid)

    def _points(self, rng: random.Random, seen: set[Point]) -> Iterator[Point]:
        """The base, then each single change in random order, then changes of the best points."""
        first: list[Point] = [
            ((dimension.name, value),)
            for dimension in self.dimensions
            for value in dimension.values
        ]
        rng.shuffle(first)
        for point in [(), *first]:
            seen.add(point)
            yield point
        while True:
            made = next((p for p in self._mutations(rng) if p not in seen), None)
            if made is None:
                return
            seen.add(made)
            yield made

    def _mutations(self, rng: random.Random) -> Iterator[Point]:
        for _ in range(_ATTEMPTS):
            parents = self.best or self.evaluations
            values = dict(rng.choice(parents).point)
            if len(parents) > 1 and rng.random() < 0.5:
                values |= dict(rng.choice(parents).point)
            for _ in range(rng.randint(0, _MOST_CHANGES)):
                dimension = rng.choice(self.dimensions)
                values[dimension.name] = rng.choice(dimension.values)
            yield tuple(sorted(values.items()))

    def _candidate(self, point: Point, number: int) -> Candidate | None:
        """The candidate of a point; None if it equals the base or a core refuses it."""
        body, fields = copy.deepcopy(self.body), []
        values = dict(point)
        for dimension in self.dimensions:
            if dimension.name not in values:
                continue
            if dimension.change is None:
                fields.append(Override.read(f"{dimension.name}={values[dimension.name]}"))
            else:
                dimension.change(body, values[dimension.name])
        if point and body == self.body and not fields:
            return None
        text = yaml.safe_dump(body, sort_keys=False)
        name = f"{number:02d}"
        try:
            check_configuration(name, Configuration(scheduler_conf=text))
        except CandidateError:
            return None
        return Candidate(text, overrides=Overrides(tuple(fields)), name=name)


def _text(value: Any) -> str:
    return (
        {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )
