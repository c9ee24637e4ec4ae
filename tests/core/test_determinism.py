"""The same input gives the same decisions: in any process, whatever order objects arrive in."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pumice.cli.simulate import START_NS
from pumice.cli.simulation.runs import Run, run
from pumice.cli.simulation.scenarios import read_scenario
from tests import dsl

TESTS = Path(__file__).resolve().parents[1]
# One of every kind of thing that could depend on an order.
SCENARIOS = [
    "default-11-003",
    "drf-11-004",
    "large-11-002",
    "nodeorder-11-005",
    "pipeline-12-003",
    "preempt-11-002",
    "preemptrich-11-003",
    "proportion-11-006",
    "reclaim-11-003",
    "roles-11-001",
]


def found(name: str) -> Path:
    """The file, or the next one of its family."""
    family = name.rpartition("-")[0].rpartition("-")[0]
    files = sorted((TESTS / "conformance").glob(f"{family}-*.json"))
    return next((path for path in files if path.stem >= name), files[-1])


def said(done: Run) -> list[object]:
    return [
        (
            [str(decision) for decision in cycle.decisions],
            [str(wait) for wait in cycle.waits],
            dict(cycle.outcome.phases),
        )
        for cycle in done.cycles
    ]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_order_of_arrival_means_nothing(name: str) -> None:
    path = found(name)
    body = json.loads(path.read_text(encoding="utf-8"))
    first = said(run(read_scenario(body, path.name), START_NS))
    for seed in (1, 2, 3):
        scenario = read_scenario(body, path.name)
        objects = list(scenario.objects)
        random.Random(seed).shuffle(objects)
        assert said(run(replace(scenario, objects=tuple(objects)), START_NS)) == first


PLAY = """
import sys
from pathlib import Path
from tests import dsl
for name in sys.argv[1:]:
    print(name, dsl.play(dsl.read_case(Path(name))))
"""


def in_a_process(hash_seed: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scenarios_come_out_the_same_under_other_hash_seeds() -> None:
    cases = [str(path) for path in sorted((TESTS / "scenarios").glob("*.case"))]
    outputs = {in_a_process(seed, "-c", PLAY, *cases) for seed in ("0", "1", "42")}
    assert len(outputs) == 1
    here = [f"{case} {dsl.play(dsl.read_case(Path(case)))}" for case in cases]
    assert outputs.pop().splitlines() == here


def test_clusters_come_out_the_same_under_other_hash_seeds() -> None:
    files = [str(found(name)) for name in SCENARIOS]
    main = "from pumice.cli.main import main; main()"
    outputs = {
        in_a_process(seed, "-c", main, "simulate", "--json", *files) for seed in ("7", "4096")
    }
    assert len(outputs) == 1
