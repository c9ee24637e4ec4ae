"""Checks that every action and plugin is tested: tests fail when it is switched off.

``python -m tests.switched_off [NAME ...]`` runs, for each part, the tests that concern it while the
part does nothing, and prints how many fail. It ends with 1 when a part has fewer than three. The
module is also the pytest plugin that switches the part off in the process that runs the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pumice.core.registry import BUILT_IN_ACTIONS, BUILT_IN_PLUGINS

NEEDED = 3
ROOT = Path(__file__).parent.parent
ACTIONS = tuple(action.name for action in BUILT_IN_ACTIONS)
PLUGINS = tuple(plugin.name for plugin in BUILT_IN_PLUGINS)

# The families of the conformance corpus and the unit tests that say most about a part. A part that
# is not named here has the files named for it, and all families.
FAMILIES = {
    "enqueue": ("default", "enqueue"),
    "allocate": ("default", "podshapes"),
    "backfill": ("besteffort",),
    "preempt": ("preempt", "preemptrich"),
    "reclaim": ("reclaim", "reclaimrich"),
    "shuffle": (),
    "binpack": ("binpack",),
    "capacity": ("capacity", "capacityrich", "hierarchy"),
    "conformance": ("preempt", "preemptrich"),
    "drf": ("drf", "hdrf"),
    "gang": ("default", "pipeline", "roles"),
    "nodeorder": ("nodeorder",),
    "overcommit": ("enqueue",),
    "predicates": ("predicates", "podshapes"),
    "priority": ("default", "preempt"),
    "proportion": ("proportion", "reclaim"),
    "resourcequota": ("quota",),
    "sla": ("sla",),
    "cdp": ("cdp",),
    "deviceshare": ("deviceshare",),
    "nodegroup": ("nodegroup",),
    "numa-aware": ("numa",),
    "pdb": ("pdb",),
    "resource-strategy-fit": ("strategyfit",),
    "task-topology": ("tasktopology",),
    "tdm": ("tdm", "shuffle"),
    "rescheduling": ("rescheduling",),
    "extender": (),
    "usage": ("usage",),
    "gangpreempt": ("gangpreempt", "gangpreempt2"),
    "gangreclaim": ("gangreclaim",),
    "network-topology-aware": ("hypernode", "subgroups"),
}
UNIT_TESTS = {
    "capacity": ("tests/core/plugins/test_capacity.py", "tests/core/plugins/test_capacity_tree.py"),
    "deviceshare": ("tests/core/plugins/test_deviceshare.py",),
    "drf": ("tests/core/plugins/test_drf.py", "tests/core/plugins/test_hdrf.py"),
    "gangpreempt": ("tests/core/test_gang_actions.py",),
    "gangreclaim": ("tests/core/test_gang_actions.py",),
    "network-topology-aware": ("tests/core/plugins/test_network_topology.py",),
    "nodeorder": ("tests/core/plugins/test_nodeorder_preferences.py",),
    "predicates": ("tests/core/plugins/test_predicates_node_filters.py",),
}

# How the runner tells the plugin what to switch off, and the plugin what failed.
_PART = "PUMICE_SWITCHED_OFF"
_REPORT = "PUMICE_SWITCHED_OFF_REPORT"


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of the tests while a part did nothing."""

    part: str
    run: int
    failed: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        return len(self.failed) >= NEEDED

    def __str__(self) -> str:
        kinds = Counter(_kind(test) for test in self.failed)
        parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        return f"{self.part:14} {len(self.failed):4} of {self.run:4} fail  {parts}"


def _kind(test: str) -> str:
    path = test.partition("::")[0]
    if path.startswith("tests/conformance/"):
        return "conformance"
    return "scenario" if path == "tests/test_scenarios.py" else "unit"


def measure(part: str, *, enough: int = 0) -> Measured:
    """Runs the tests of a part without the part, up to a number of failures; 0: all tests."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", "-p", "tests.switched_off", "-q", "--tb=no"]
        command += ["-n", "0", f"--maxfail={enough}", *_paths(part)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, _PART: part, _REPORT: str(report)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout}{done.stderr}")
        seen = json.loads(report.read_text(encoding="utf-8"))
    return Measured(part, seen["run"], tuple(seen["failed"]))


def _paths(part: str) -> Iterator[str]:
    yield "tests/test_scenarios.py"
    yield "tests/conformance"
    if part in UNIT_TESTS:
        yield from UNIT_TESTS[part]
        return
    folder = "tests/core" if part in ACTIONS else "tests/core/plugins"
    for path in sorted(ROOT.glob(f"{folder}/test_{part.replace('-', '_')}*.py")):
        yield str(path.relative_to(ROOT))


# The pytest plugin.


class _Watcher:
    """Runs the tests that concern the part, and writes the failed ones."""

    def __init__(self, part: str, report: Path) -> None:
        self._families = FAMILIES.get(part)
        self._report = report
        self._run: set[str] = set()
        self._failed: dict[str, None] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._concerns(item)]

    def _concerns(self, item: pytest.Item) -> bool:
        if _kind(item.nodeid) != "conformance" or self._families is None:
            return True
        return any(f"[{family}-" in item.name for family in self._families)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._run.add(report.nodeid)
        if report.failed:
            self._failed[report.nodeid] = None

    def pytest_sessionfinish(self) -> None:
        seen = {"run": len(self._run), "failed": list(self._failed)}
        self._report.write_text(json.dumps(seen), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    switch_off(os.environ[_PART])
    config.pluginmanager.register(_Watcher(os.environ[_PART], Path(os.environ[_REPORT])))


def switch_off(part: str) -> None:
    """Makes the part do nothing in this process."""
    parts: tuple[type[Any], ...] = (*BUILT_IN_ACTIONS, *BUILT_IN_PLUGINS)
    classes = {part.name: part for part in parts}
    for method in ("execute", "open", "close", "next_wake"):
        if hasattr(classes[part], method):
            setattr(classes[part], method, lambda *_: None)


def main(names: list[str]) -> int:
    known = (*ACTIONS, *PLUGINS)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no action or plugin {unknown[0]!r}; there are: {', '.join(known)}")
        return 2
    short = []
    for part in names or known:
        measured = measure(part)
        print(measured, flush=True)
        if not measured.is_needed:
            short.append(part)
    if short:
        print(f"fewer than {NEEDED} tests notice: {', '.join(short)}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
