"""The demo's cluster: few nodes, more jobs than fit, and a scheduler configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Simulated seconds per second.
_SPEED = 4.0
# The share of the time in which jobs arrive.
_ARRIVALS = 0.55
# Requests of the jobs while they arrive, as a share of the cluster: some job always waits.
_LOAD = 1.5
# The share of gangs that need only half of their pods.
_ELASTIC = 0.7
# With --keep, duration and number of jobs are multiplied by this.
_KEPT_LENGTHS = 100
_MOST_JOBS = 5000
_REPORT_SECONDS = 0.2

# Preemption within a queue by priority, and reclaim between queues by weight; every gang keeps its
# minimum of pods.
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
class DemoScenario:
    """The options of a demo. Equal options give equal clusters."""

    seed: int
    nodes: int
    jobs: int
    # The maximum duration; the cluster ends earlier when its jobs are done.
    seconds: float
    faults: Sequence[str]
    # File for a recording of the core; None for no recording.
    record: Path | None = None
    # Whether the cluster runs until it is stopped.
    keep: bool = False

    def core_arguments(self, folder: Path) -> list[str]:
        words = ["core", "--listen", socket_address(folder), "--log-level", "warning"]
        return words if self.record is None else [*words, "--record", str(self.record.resolve())]

    def adapter_arguments(self, folder: Path) -> list[str]:
        """Arguments of the adapter. The cluster is in a file, so that it survives a killed process."""
        configuration = folder / "scheduler.yaml"
        configuration.write_text(_CONFIGURATION, encoding="utf-8")
        lengths = _KEPT_LENGTHS if self.keep else 1
        options: dict[str, object] = {
            "core": socket_address(folder),
            "cluster": "demo",
            "state": folder / "cluster",
            "scheduler-conf": configuration,
            "seed": self.seed,
            "nodes": self.nodes,
            "jobs": max(min(self.jobs * lengths, _MOST_JOBS), self.jobs),
            "duration": self.seconds * _SPEED * lengths,
            "speed": _SPEED,
            "arrivals": _ARRIVALS,
            "load": _LOAD,
            "elastic": _ELASTIC,
            "report-interval": _REPORT_SECONDS,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        flags = ["--json", *(["--keep"] if self.keep else [])]
        return [
            "adapter",
            "simulated",
            *flags,
            *words,
            *(f"--fault={fault}" for fault in self.faults),
        ]


def socket_address(folder: Path) -> str:
    return f"unix:{folder}/core.sock"
