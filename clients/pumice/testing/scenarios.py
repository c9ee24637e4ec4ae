"""Assertions on scenario files: a cluster, a configuration and the expected decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from pumice.manifests import translate_documents
from pumice.manifests.times import timestamp_ns
from pumice.testing.clusters import START_NS, Cluster, Cycle
from pumice.v1.object_pb2 import ClusterObject

ANY_NODE = "*"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The content of a scenario file."""

    name: str
    cycles: int
    cluster: Cluster
    # Allowed outcomes, each with one entry per cycle.
    expected: tuple[tuple[Mapping[str, Any], ...], ...] = ()

    def run(self) -> list[Cycle]:
        return self.cluster.cycles(self.cycles)


def load_scenario(path: Path | str) -> Scenario:
    """Reads a scenario file. Raises ValueError for other files."""
    path = Path(path)
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not a scenario: line {error.lineno}: {error.msg}") from None
    if not isinstance(body, dict) or not isinstance(body.get("conf"), str):
        raise ValueError(f"{path}: not a scenario: conf is missing")
    begin_ns = timestamp_ns(body["now"], "now") if "now" in body else START_NS
    cluster = Cluster(body["conf"], now_ns=begin_ns)
    found = translate_documents(body.get("objects", []), str(path))
    if found.errors:
        raise ValueError("; ".join(map(str, found.errors)))
    cluster.add(*found.objects)
    cluster.add(*(json_format.ParseDict(o, ClusterObject()) for o in body.get("wire", [])))
    cycles = body.get("cycles", 1)
    outcomes = body.get("expect_any") or ([body["expect"]] if "expect" in body else [])
    expected = tuple(tuple(outcome) for outcome in outcomes)
    for outcome in expected:
        if len(outcome) != cycles:
            problem = f"{len(outcome)} entries; allowed: {cycles}, one per cycle"
            raise ValueError(f"{path}: the expected outcome has {problem}")
        for number, entry in enumerate(outcome):
            lacking = [key for key in ("binds", "evicts", "podgroups") if key not in entry]
            if lacking:
                raise ValueError(f"{path}: cycle {number + 1}: {lacking[0]} is missing")
    return Scenario(body.get("name", path.stem), cycles, cluster, expected)


def assert_scenario(path: Path | str) -> list[Cycle]:
    """Runs a scenario file; fails unless all cycles match one of the expected outcomes."""
    scenario = load_scenario(path)
    if not scenario.expected:
        raise ValueError(f"{path}: expect is missing")
    cycles = scenario.run()
    differences = [_first_difference(outcome, cycles) for outcome in scenario.expected]
    if all(differences):
        raise AssertionError(f"{scenario.name}: " + "\nor ".join(differences))
    return cycles


def _first_difference(outcome: tuple[Mapping[str, Any], ...], cycles: list[Cycle]) -> str:
    for number, (wanted, got) in enumerate(zip(outcome, cycles, strict=True), start=1):
        binds, evicts, phases = wanted["binds"], wanted["evicts"], wanted["podgroups"]
        missing = {
            pod: node
            for pod, node in binds.items()
            if pod not in got.binds or node not in (ANY_NODE, got.binds[pod])
        }
        extra = {pod: node for pod, node in got.binds.items() if pod not in binds}
        if missing or extra:
            return f"cycle {number}: expected to bind {missing}, decided {dict(got.binds)}"
        if set(evicts) != got.evicts:
            return f"cycle {number}: expected to evict {evicts}, not {set(got.evicts)}"
        if dict(phases) != dict(got.phases):
            return f"cycle {number}: expected {phases}, not {dict(got.phases)}"
    return ""
