"""A candidate: settings that replace the recorded ones in a what-if run."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.evaluation.overrides import Overrides
from pumice.server.local import ConfigurationRefusedError, LocalCore
from pumice.v1.configuration_pb2 import Configuration

_SECOND_NS = 1_000_000_000


class CandidateError(ValueError):
    """An invalid candidate. The message names it and the allowed values."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings of a what-if run; None means the recorded setting."""

    scheduler_conf: str | None = None
    period_seconds: float | None = None
    eager: bool | None = None
    overrides: Overrides = field(default_factory=Overrides)
    name: str = "new"

    @property
    def changes_times(self) -> bool:
        """Whether sessions run at other times than recorded."""
        return self.period_seconds is not None or self.eager is not None

    @property
    def starts_simulated(self) -> bool:
        """Whether the run is simulated from the first session on, even with equal decisions."""
        return self.changes_times or self.overrides.changes_nodes

    def applied_to(self, recorded: Configuration) -> Configuration:
        changed = Configuration()
        changed.CopyFrom(recorded)
        if self.scheduler_conf is not None:
            changed.scheduler_conf = self.scheduler_conf
        if self.period_seconds is not None:
            changed.schedule_period.FromNanoseconds(int(self.period_seconds * _SECOND_NS))
        if self.eager is not None:
            changed.eager = self.eager
        return changed


def check_configuration(name: str, configuration: Configuration) -> None:
    """Raises CandidateError for a configuration that a core refuses."""
    try:
        LocalCore(configuration)
    except ConfigurationRefusedError as error:
        problems = [problem for problem in error.problem_messages if not problem.warning]
        first = problems[0]
        where = f"configuration line {first.line}" if first.line else "configuration"
        path = f"{first.path}: " if first.path else ""
        more = f" (and {len(problems) - 1} more; see 'pumice conf check')" if problems[1:] else ""
        raise CandidateError(f"{name}: {where}: {path}{first.problem}{more}") from None
