"""Comparison of a run with the expected decisions of its scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pumice.cli.simulation.scenarios import Allowed, Outcome, Scenario

ANY_NODE = "*"
_MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences of the first cycle that differs from the expectation, as text."""

    # From 1.
    cycle: int
    expected: tuple[str, ...]
    decided: tuple[str, ...]
    # The number of allowed outcomes.
    alternatives: int = 1

    def __str__(self) -> str:
        nearest = f" (the nearest of {self.alternatives})" if self.alternatives > 1 else ""
        return (
            f"cycle {self.cycle}: expected{nearest} {_listed(self.expected)}; "
            f"decided {_listed(self.decided)}"
        )


def difference(scenario: Scenario, decided: Sequence[Outcome]) -> Difference | None:
    """The difference from the nearest expected outcome; None if the run equals one of them."""
    found = [_first_difference(outcome, decided) for outcome in scenario.expected]
    if any(one is None for one in found):
        return None
    nearest = max(
        (one for one in found if one is not None),
        key=lambda one: (one.cycle, -len(one.expected) - len(one.decided)),
    )
    return Difference(nearest.cycle, nearest.expected, nearest.decided, len(found))


def _first_difference(expected: Sequence[Outcome], decided: Sequence[Outcome]) -> Difference | None:
    for number, (wanted, got) in enumerate(zip(expected, decided, strict=True), start=1):
        missing, extra = _differences(wanted, got)
        if missing or extra:
            return Difference(number, tuple(missing), tuple(extra))
    return None


def _differences(wanted: Outcome, got: Outcome) -> tuple[list[str], list[str]]:
    missing: list[str] = []
    extra: list[str] = []
    for pod, node in sorted(wanted.binds.items()):
        if pod not in got.binds or node not in (ANY_NODE, got.binds[pod]):
            missing.append(f"bind {pod} {node}")
    for pod, node in sorted(got.binds.items()):
        if wanted.binds.get(pod) not in (ANY_NODE, node):
            extra.append(f"bind {pod} {node}")
    missing += [f"evict {pod}" for pod in sorted(wanted.evicts - got.evicts)]
    extra += [f"evict {pod}" for pod in sorted(got.evicts - wanted.evicts)]
    missing += _differing_phases(wanted.phases, got.phases)
    extra += _differing_phases(got.phases, wanted.phases)
    for mine, other in (
        (wanted.conditions, got.conditions),
        (wanted.pod_conditions, got.pod_conditions),
    ):
        _compare_conditions(mine, other, missing, extra)
    return missing, extra


# The message names any of the tasks without a node, so the name is not compared.
_NAMED_TASK = re.compile(r"Origin reason is [^:]+:")


def _compare_conditions(
    wanted: Mapping[str, Allowed], got: Mapping[str, Allowed], missing: list[str], extra: list[str]
) -> None:
    for name, allowed in sorted(wanted.items()):
        found = got.get(name, ((),))
        if _without_task(found[0]) not in [_without_task(value) for value in allowed]:
            missing.append(f"{name} {_shown(allowed[0])}")
            extra.append(f"{name} {_shown(found[0])}")


def _without_task(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_without_task(part) for part in value)
    return _NAMED_TASK.sub("Origin reason is", value)


def _shown(value: tuple[Any, ...]) -> str:
    """Conditions as text."""
    parts = [_shown(part) if isinstance(part, tuple) else str(part) for part in value]
    return f"[{' | '.join(parts)}]"


def _differing_phases(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    return [
        f"{group} {phase or 'without a phase'}"
        for group, phase in sorted(here.items())
        if there.get(group) != phase
    ]


def _listed(items: Sequence[str]) -> str:
    if not items:
        return "nothing"
    shown = ", ".join(items[:_MOST_SHOWN])
    more = len(items) - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
