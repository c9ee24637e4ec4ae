"""What the demo plays: a small cluster with more work than room, and how it is scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Simulated seconds in one: jobs of a quarter of a minute pass in a few seconds.
_SPEED = 4.0
# Jobs arrive in the first part; the rest is for those that wait or run then.
_ARRIVALS = 0.55
# What jobs ask for while they arrive, as a share of the cluster: somebody always waits.
_LOAD = 1.5
# Gangs that are content with half their pods lend the rest of their places to others.
_ELASTIC = 0.7

# Takes back what was lent, within a queue by priority and between queues by weight, and leaves
# every gang as many pods as it needs.
_CONFIGURATION = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: proportion
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: nodeorder
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """Equal scenes show equal clusters."""

    seed: int
    nodes: int
    jobs: int
    # The cluster ends when its jobs are done, at the latest after this time.
    seconds: float
    trouble: Sequence[str]
    # Where the core shall record; None: nowhere.
    record: Path | None = None

    def core_arguments(self, folder: Path) -> list[str]:
        words = ["core", "--listen", socket(folder), "--log-level", "warning"]
        return words if self.record is None else [*words, "--record", str(self.record.resolve())]

    def adapter_arguments(self, folder: Path) -> list[str]:
        """The cluster is kept in a file, so that it outlives a process that is killed."""
        configuration = folder / "scheduler.yaml"
        configuration.write_text(_CONFIGURATION, encoding="utf-8")
        options: dict[str, object] = {
            "core": socket(folder),
            "cluster": "demo",
            "state": folder / "cluster",
            "scheduler-conf": configuration,
            "seed": self.seed,
            "nodes": self.nodes,
            "jobs": self.jobs,
            "duration": self.seconds * _SPEED,
            "speed": _SPEED,
            "arrivals": _ARRIVALS,
            "load": _LOAD,
            "elastic": _ELASTIC,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        return ["adapter", "simulated", "--json", *words, *(f"--trouble={t}" for t in self.trouble)]


def socket(folder: Path) -> str:
    return f"unix:{folder}/core.sock"
