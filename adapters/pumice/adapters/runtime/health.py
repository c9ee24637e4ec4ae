"""Named health checks of a process, grouped by the probe that asks for them.

Parts of the process add checks, and the pages `/livez`, `/readyz` and `/healthz` run them. A check
returns the problem, or "".
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import TypeAlias

from pumice.adapters.runtime.metrics import Metrics

Check: TypeAlias = Callable[[], str]


class Probe(Flag):
    """The meaning of a failed check."""

    # The process cannot recover and must be restarted.
    LIVE = auto()
    # The process does not do its work now.
    READY = auto()
    ANY = LIVE | READY


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    problem: str

    @property
    def is_ok(self) -> bool:
        return not self.problem


class Health:
    """A registry of checks. A check with an existing name replaces the old one."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._checks: dict[str, tuple[Probe, Check]] = {}

    def add(self, name: str, check: Check, probe: Probe = Probe.READY) -> None:
        self._checks[name] = (probe, check)

    def remove(self, name: str) -> None:
        if self._checks.pop(name, None) is not None:
            self._metrics.remove_gauge("check_ok", check=name)

    def run(self, probe: Probe = Probe.ANY) -> list[CheckResult]:
        """The results of all checks of a probe, by name. A check that raises has failed."""
        return [
            self._run(name, check)
            for name, (of, check) in sorted(self._checks.items())
            if of & probe
        ]

    def _run(self, name: str, check: Check) -> CheckResult:
        try:
            problem = check()
        except Exception as error:
            problem = f"the check failed: {type(error).__name__}: {error}"
        self._metrics.gauge("check_ok", 0 if problem else 1, check=name)
        return CheckResult(name, problem)
