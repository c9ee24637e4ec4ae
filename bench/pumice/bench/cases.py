"""Cases with bounds on counted work. Counts are the same on every machine, so a test checks them.

A case in ``bench/cases.yaml`` has a benchmark, a small size, expected figures, and upper bounds on
counts of work, which hold with and without the compiled kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from pumice.bench.catalogue import ENGINE_BENCHES
from pumice.bench.clusters import Size
from pumice.bench.engines import using_kernel
from pumice.bench.results import Result
from pumice.bench.steady_state import waiting_gangs

# The file exists in the source tree only, not in an installed package.
CASES = Path(__file__).resolve().parents[2] / "cases.yaml"
COUNTS = (
    "candidates_scored",
    "classes_by_numpy",
    "classes_refreshed",
    "domains_tried",
    "jobs_closed",
    "jobs_considered",
    "jobs_visited",
    "nodes_tried_for_victims",
    "preemptors_tried",
    "reclaimers_tried",
    "rows_computed",
    "tasks_tried",
    "cached_rows_failed",
)
VARIABLES = ("nodes", "jobs", "size", "queues", "classes", "pods", "waiting")
# The ratio of a new bound to the count.
MARGIN = 1.2


class CasesError(Exception):
    """An invalid file of cases. The message names the case, the field and the allowed values."""


class CaseSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size of a case, with the options of ``pumice bench`` as fields."""

    nodes: int
    jobs: int
    size: int
    queues: int = 4
    classes: int = 1
    background: Literal["lifelike", "none"] = "none"

    def read(self) -> Size:
        return Size(
            self.nodes,
            self.jobs,
            self.size,
            self.queues,
            self.classes,
            has_background=self.background == "lifelike",
        )


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One benchmark at one size."""

    name: str
    bench: str
    size: CaseSize
    # Figures with their exact values.
    expect: dict[str, int | float | str]
    # Upper bounds on counts of work: a number, or a product such as ``1.2 * classes * nodes``.
    at_most: dict[str, int | float | str]

    def run(self, kernel_name: str) -> Result:
        with using_kernel(kernel_name):
            return ENGINE_BENCHES[self.bench](self.size.read())

    def problems(self, result: Result) -> list[str]:
        """The differences from ``expect`` and the exceeded bounds of a result, as messages."""
        size, found = self.size.read(), []
        for name, text in self.expect.items():
            wanted, figure = product(text, size), result.figures.get(name)
            if figure != wanted:
                found.append(f"case {self.name}: {name} is {figure}, not {wanted:g} ({text})")
        for name, text in self.at_most.items():
            bound, got = product(text, size), result.work.get(name, 0)
            if got > bound:
                found.append(
                    f"case {self.name}: {name} is {got}; the maximum is {bound:g} ({text})"
                )
        return found


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cases: list[Case]


def read_cases(path: Path = CASES) -> list[Case]:
    """All cases of a file; raises CasesError for the first problem."""
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        cases = msgspec.convert(content, _File).cases
    except OSError as error:
        raise CasesError(f"{path}: {error.strerror}; set --file to a file of cases") from error
    except yaml.YAMLError as error:
        raise CasesError(f"{path}: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise CasesError(f"{path}: {error}") from error
    seen: set[str] = set()
    for case in cases:
        _check(path, case)
        if case.name in seen:
            raise CasesError(f"{path}: case {case.name}: duplicate name")
        seen.add(case.name)
    return cases


def _check(path: Path, case: Case) -> None:
    where = f"{path}: case {case.name}"
    if case.bench not in ENGINE_BENCHES:
        known = ", ".join(ENGINE_BENCHES)
        raise CasesError(f"{where}: bench: unknown benchmark {case.bench!r}; allowed: {known}")
    for name in ("nodes", "jobs", "size", "queues", "classes"):
        if getattr(case.size, name) < 1:
            raise CasesError(f"{where}: size.{name}: must be 1 or more")
    if not case.at_most:
        raise CasesError(f"{where}: at_most: empty; needs at least one of {', '.join(COUNTS)}")
    for count in case.at_most:
        if count not in COUNTS:
            raise CasesError(
                f"{where}: at_most: unknown count {count!r}; allowed: {', '.join(COUNTS)}"
            )
    for part, bounds in (("expect", case.expect), ("at_most", case.at_most)):
        for name, text in bounds.items():
            try:
                product(text, case.size.read())
            except ValueError as error:
                raise CasesError(f"{where}: {part}.{name}: {error}") from error


def _variables(size: Size) -> Mapping[str, int]:
    return {
        "nodes": size.nodes,
        "jobs": size.jobs,
        "size": size.size,
        "queues": size.queues,
        "classes": size.classes,
        "pods": size.pods,
        "waiting": waiting_gangs(size),
    }


def product(text: float | str, size: Size) -> float:
    """The value of a bound: a product of numbers and variables of the size."""
    variables, total = _variables(size), 1.0
    for factor in str(text).split("*"):
        word = factor.strip()
        if word in variables:
            total *= variables[word]
        elif re.fullmatch(r"\d+(\.\d+)?", word):
            total *= float(word)
        else:
            raise ValueError(f"{word!r} is neither a number nor one of {', '.join(VARIABLES)}")
    # A product of floats can be slightly below the whole number that it stands for.
    return round(total, 6)


def fitted(text: float | str, size: Size, count: int) -> str:
    """A bound for a count with the usual margin, as a product of the same variables."""
    factors = [factor.strip() for factor in str(text).split("*")]
    kept = [factor for factor in factors if factor in VARIABLES]
    base = product(" * ".join(kept), size) if kept else 1.0
    if not kept or not count:
        return str(math.ceil(MARGIN * count))
    factor = math.ceil(1000 * MARGIN * count / base) / 1000
    return " * ".join([f"{factor:g}", *kept])


def tightened(content: str, counts: Mapping[str, Mapping[str, int]], cases: list[Case]) -> str:
    """The text of the cases file with bounds lowered to fit the counts of a run."""
    by_name = {case.name: case for case in cases}
    case: Case | None = None
    lines = []
    for line in content.splitlines(keepends=True):
        if begun := re.match(r"\s*- name: (\S+)", line):
            case = by_name.get(begun[1])
        held = re.match(r"(\s+)(\w+): (.+?)\s*$", line)
        if case is not None and held and held[2] in case.at_most:
            size = case.size.read()
            fresh = fitted(held[3], size, counts[case.name].get(held[2], 0))
            if product(fresh, size) < product(held[3], size):
                line = f"{held[1]}{held[2]}: {fresh}\n"  # noqa: PLW2901
        lines.append(line)
    return "".join(lines)
