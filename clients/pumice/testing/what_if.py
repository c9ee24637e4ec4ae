"""What-if runs of recordings in tests of policies."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pumice.evaluation import (
    Candidate,
    Fault,
    Figures,
    GoalResult,
    JobResult,
    Options,
    Overrides,
    Verdict,
    WhatIf,
    fault_text,
)
from pumice.evaluation.goals import goal_of
from pumice.evaluation.whatif import what_if as run_what_if
from pumice.recordings import SUFFIX
from pumice.testing.errors import PluginFaultError, RecordingWarning

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class JobComparison:
    """A job in the recording, and in the what-if run."""

    # ``namespace/name``.
    job: str
    queue: str
    # The priority class, or the priority if there is no class.
    priority: str
    old: JobResult
    new: JobResult


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """The result of a what-if run. Old and new figures are of the same jobs."""

    # By ``namespace/name``.
    jobs: Mapping[str, JobComparison]
    # All goals by name, such as ``wait.p90``, with old, new, difference and verdict.
    goals: Mapping[str, GoalResult]
    # The assumptions of the simulation.
    assumptions: tuple[str, ...]
    # Damage of the recordings, and gaps between them.
    problems: tuple[str, ...]
    # Faults of plugins and actions; empty unless they are allowed.
    faults: tuple[Fault, ...]
    old: Figures = field(repr=False)
    new: Figures = field(repr=False)

    def goal(self, name: str) -> GoalResult:
        """The goal with this name. Raises UnknownGoalError, which names similar goals."""
        return goal_of(self.goals.values(), name)

    def jobs_of(
        self, *, queue: str | None = None, priority: str | None = None
    ) -> list[JobComparison]:
        """The jobs of a queue, of a priority, or all jobs. Raises ValueError if there is none."""
        found = [
            job
            for job in self.jobs.values()
            if queue in (None, job.queue) and priority in (None, job.priority)
        ]
        if not found:
            queues = sorted({job.queue for job in self.jobs.values()})
            priorities = sorted({job.priority for job in self.jobs.values()})
            raise ValueError(
                f"no job has queue {queue!r} and priority {priority!r}; "
                f"queues: {', '.join(queues)}; priorities: {', '.join(priorities)}"
            )
        return found

    def assert_waits_at_most(
        self, seconds: float, *, queue: str | None = None, priority: str | None = None
    ) -> None:
        """Fails if jobs wait longer in the new run, including jobs that never start."""
        late = [
            job.new
            for job in self.jobs_of(queue=queue, priority=priority)
            if job.new.wait is not None and job.new.wait > seconds
        ]
        if late:
            late.sort(key=lambda job: (-(job.wait or 0.0), job.job))
            lines = [f"{len(late)} jobs wait longer than {seconds:g} s"]
            lines += [f"  {job.job}: {job.state}, {job.wait} s" for job in late[:_MOST_SHOWN]]
            more = len(late) - _MOST_SHOWN
            raise AssertionError("\n".join([*lines, f"  and {more} more"] if more > 0 else lines))

    @property
    def better(self) -> list[str]:
        """Names of goals that are better than recorded."""
        return [name for name, goal in self.goals.items() if goal.verdict is Verdict.BETTER]

    @property
    def worse(self) -> list[str]:
        """Names of goals that are worse than recorded."""
        return [name for name, goal in self.goals.items() if goal.verdict is Verdict.WORSE]


def what_if(
    *recordings: Path | str,
    conf: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    remove_nodes: Iterable[str] = (),
    add_nodes: Mapping[str, int] | None = None,
    schedule_period: float | None = None,
    eager: bool | None = None,
    strict: bool = False,
    allow_faults: bool = False,
) -> WhatIfResult:
    """Runs recordings with other settings; by default, settings are as recorded.

    ``conf`` is the text of a configuration, or a file as a Path. ``overrides`` has values by path,
    such as ``{"queues/production/weight": 4}``. A folder means all recordings in it.

    Fails with PluginFaultError for a fault of a plugin or action. Raises RecordingError for invalid
    recordings, CandidateError and OverrideError for invalid settings. Damage and gaps cause a
    RecordingWarning, or with ``strict`` a RecordingError.
    """
    text = conf.read_text(encoding="utf-8") if isinstance(conf, Path) else conf
    changed = Overrides.of(overrides or {}, remove_nodes, add_nodes)
    found = run_what_if(
        _files(recordings),
        Candidate(text, schedule_period, eager, changed),
        Options(strict=strict, allow_faults=allow_faults),
    )
    if found.faults and not allow_faults:
        raise PluginFaultError(fault_text(found.faults))
    for problem in found.problems:
        warnings.warn(problem, RecordingWarning, stacklevel=2)
    return _result(found)


def _files(recordings: Iterable[Path | str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, recordings):
        inside = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            raise FileNotFoundError(f"{path}: no file in this folder ends in {SUFFIX}")
        found += inside
    if not found:
        raise ValueError("no recording given; what_if needs at least one")
    return found


def _result(run: WhatIf) -> WhatIfResult:
    jobs = {
        name: JobComparison(name, old.queue, old.priority, old, run.new.jobs[name])
        for name, old in run.old.jobs.items()
    }
    goals = {goal.name: goal for goal in run.goals}
    return WhatIfResult(jobs, goals, run.assumptions, run.problems, run.faults, run.old, run.new)
