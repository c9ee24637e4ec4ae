"""Creates a replay: random changes of a cluster from a seed, with the decisions of each cycle.

    python -m tests.record SEED > tests/replays/NAME.jsonl

A header line, then one line a cycle: the time, the deltas since the last one and what was decided.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

from pumice.core.decisions import (
    Bind,
    PodConditionChanged,
    PodGroupStatusChanged,
    SessionResult,
)
from tests.tables import Manifest, Tables
from tests.world import SECOND_NS, START_NS, make_engine, read_delta

ACTIONS = "enqueue, allocate, preempt, reclaim, backfill"
PLUGINS = [
    ["priority", "gang", "conformance"],
    ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
]
CYCLES = 20


class Recorder:
    """A cluster as manifests, with the deltas for an engine."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._tables = Tables()
        self._held: dict[str, Manifest] = {}
        self._deltas: list[tuple[str, Any]] = []
        self._jobs = 0

    def lines(self, seed: int) -> Iterator[str]:
        header = {"actions": ACTIONS, "plugins": PLUGINS, "seed": seed}
        yield json.dumps(header)
        engine = make_engine(ACTIONS, PLUGINS)
        for cycle in range(CYCLES):
            self._happens(cycle)
            deltas, self._deltas = self._deltas, []
            now_ns = START_NS + cycle * SECOND_NS
            assert engine.apply(read_delta(kind, row) for kind, row in deltas) == ()
            result = engine.schedule(now_ns)
            decisions = [str(decision) for decision in result.decisions]
            # Written before the manifests change: deltas hold them as they were sent.
            yield json.dumps({"now_ns": now_ns, "deltas": deltas, "decisions": decisions})
            self._obey(result)

    def _put(self, manifest: Manifest) -> None:
        self._held[manifest["metadata"]["uid"]] = manifest
        self._deltas.append(("upsert", json.loads(json.dumps(manifest))))

    def _take(self, manifest: Manifest) -> None:
        uid = manifest["metadata"]["uid"]
        del self._held[uid]
        self._deltas.append(("delete", {"kind": manifest["kind"], "uid": uid}))

    def _rows(self, table: str, name: str, **row: str) -> None:
        for manifest in self._tables.read(table, name, row):
            self._put(manifest)

    def _happens(self, cycle: int) -> None:
        if cycle == 0:
            for number, weight in enumerate(("1", "2", "3")):
                self._rows("queues", f"q{number}", weight=weight)
        if cycle < 4:
            for number in range(2):
                self._rows("nodes", f"n{cycle}{number}", cpu=self._dice.choice("2468"))
        for _ in range(self._dice.choice((0, 1, 1, 2))):
            self._job()
        for manifest in list(self._held.values()):
            running = manifest.get("status", {}).get("phase") == "Running"
            if manifest["kind"] == "Pod" and running and self._dice.random() < 0.08:
                manifest["status"]["phase"] = "Succeeded"
                self._put(manifest)

    def _job(self) -> None:
        self._jobs += 1
        tasks = self._dice.randint(1, 4)
        self._rows(
            "jobs",
            f"job{self._jobs}",
            queue=self._dice.choice(("q0", "q1", "q2")),
            priority=self._dice.choice(("1", "5", "9")),
            tasks=str(tasks),
            min=str(self._dice.randint(1, tasks)),
            cpu=self._dice.choice(("500m", "1", "2", "3")),
        )

    def _obey(self, result: SessionResult) -> None:
        for decision in result.decisions:
            manifest = self._held[decision.uid]
            if isinstance(decision, Bind):
                manifest["spec"]["nodeName"] = decision.node
                manifest["status"] = {"phase": "Running"}
                self._put(manifest)
            else:
                self._take(manifest)
        for change in result.statuses:
            match change:
                case PodGroupStatusChanged():
                    manifest = self._held[change.uid]
                    manifest["status"] = {"phase": str(change.status.phase)}
                    self._put(manifest)
                case PodConditionChanged() if change.nominated_node_name:
                    manifest = self._held[change.uid]
                    manifest["status"]["nominatedNodeName"] = change.nominated_node_name
                    self._put(manifest)


if __name__ == "__main__":
    for line in Recorder(int(sys.argv[1])).lines(int(sys.argv[1])):
        print(line)
