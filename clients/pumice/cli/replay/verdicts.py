"""``pumice replay REC --conf NEW``: verdicts of what-if runs, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from pumice.cli.replay.plot import text_plot
from pumice.cli.terminal import console
from pumice.evaluation import Figures, GoalResult, JobResult, JobState, Verdict, WhatIf
from pumice.evaluation.figures import ALL, QueueFigures
from pumice.evaluation.goals import summary
from pumice.evaluation.ranking import Ranked

_MOST_JOBS = 10
_COLOURS = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.SAME: "dim"}


def print_what_if(found: WhatIf) -> None:
    screen = console()
    for problem in found.problems:
        screen.print(escape(f"note: {problem}"))
    screen.print(_queue_table(found))
    if jobs := changed_jobs(found):
        screen.print(_job_table(jobs))
    for line in text_plot(found.old, found.new):
        screen.print(escape(line))
    screen.print("assumptions:")
    for line in found.assumptions:
        screen.print(f"  - {escape(line)}")
    screen.print(_goal_table(found))
    screen.print(f"[bold]{escape(found.candidate)}[/]: {summary(found.goals)}")


def print_ranking(found: Sequence[Ranked], by: Sequence[str]) -> None:
    screen = console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title="candidates, best first")
    table.add_column("candidate", no_wrap=True)
    table.add_column("better", justify="right")
    table.add_column("worse", justify="right")
    names = list(by) or ["wait.p90", "jobs.finished", "evictions", "fairness"]
    for name in names:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for one in found:
        goals = {goal.name: goal for goal in one.run.goals}
        cells = [_pair(goals[name]) if name in goals else "" for name in names]
        mark = " [dim](dominated)[/]" if one.is_dominated else ""
        table.add_row(escape(one.run.candidate) + mark, str(one.better), str(one.worse), *cells)
    screen.print(table)
    chosen = ", ".join(by) if by else "all, except those of one queue or priority"
    screen.print(
        escape(
            "order: candidates that no other candidate dominates first; then by goals better minus "
            f"goals worse than recorded; then by the first goal; goals: {chosen}"
        )
    )


def _goal_table(found: WhatIf) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title="verdict")
    table.add_column("goal", no_wrap=True)
    for title in ("old", "new", "difference"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for goal in found.goals:
        colour = _COLOURS.get(goal.verdict, "dim")
        old, new = goal_texts(goal)
        verdict = f"[{colour}]{goal.verdict}[/]"
        table.add_row(escape(goal.text), old, new, difference_text(goal), verdict)
    return table


def goal_texts(goal: GoalResult) -> tuple[str, str]:
    """The old and the new figure; ``≥`` marks lower bounds."""
    pairs = ((goal.old, goal.old_is_bound), (goal.new, goal.new_is_bound))
    old, new = (f"{'≥ ' if bound else ''}{amount(value, goal.unit)}" for value, bound in pairs)
    return old, new


def difference_text(goal: GoalResult) -> str:
    difference = goal.difference
    if difference is None:
        return "-"
    text = amount(abs(difference), goal.unit)
    if text == amount(0.0, goal.unit):
        return "0"
    return f"{'+' if difference > 0 else '-'}{text}"


def amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "share":
        return f"{value:.1%}"
    if not unit:
        return f"{value:.0f}"
    return f"{value:.1f} {unit}"


def _pair(goal: GoalResult) -> str:
    old, new = goal_texts(goal)
    return old if old == new else f"{old} → {new}"


def _queue_table(found: WhatIf) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, title=f"pods in {found.seconds:.0f} s, old → new"
    )
    table.add_column("queue", no_wrap=True)
    titles = ("pods", "placed", "waiting", "mean wait", "median", "p90", "longest")
    for title in (*titles, "evicted", "cpu"):
        table.add_column(title, justify="right", no_wrap=True)
    for queue in sorted({*found.old.queues, *found.new.queues}, key=lambda q: (q == ALL, q)):
        old = found.old.queues.get(queue, QueueFigures())
        new = found.new.queues.get(queue, QueueFigures())
        table.add_row(
            escape(queue or "all"),
            _change(old.pods, new.pods),
            _change(old.placed, new.placed),
            _change(old.still_waiting, new.still_waiting),
            _change(f"{old.mean_wait:.1f} s", f"{new.mean_wait:.1f} s"),
            _change(f"{old.median_wait:.1f} s", f"{new.median_wait:.1f} s"),
            _change(f"{old.p90_wait:.1f} s", f"{new.p90_wait:.1f} s"),
            _change(f"{old.longest_wait:.1f} s", f"{new.longest_wait:.1f} s"),
            _change(old.evictions, new.evictions),
            _change(f"{old.cpu_share:.1%}", f"{new.cpu_share:.1%}"),
        )
    return table


def _change(old: object, new: object) -> str:
    return str(old) if old == new else f"{old} → {new}"


def changed_jobs(found: WhatIf) -> list[tuple[JobResult, JobResult]]:
    """The jobs whose waiting time changed most, by more than a second."""
    pairs = [(old, found.new.jobs[name]) for name, old in found.old.jobs.items()]

    def change(pair: tuple[JobResult, JobResult]) -> float:
        return abs((pair[1].wait or 0.0) - (pair[0].wait or 0.0))

    changed = [pair for pair in pairs if change(pair) > 1 or pair[0].state != pair[1].state]
    return sorted(changed, key=lambda pair: (-change(pair), pair[0].job))[:_MOST_JOBS]


def wait_text(job: JobResult) -> str:
    match job.state:
        case JobState.WAS_RUNNING:
            return "was running"
        case JobState.STARTED:
            return f"{job.wait or 0.0:.1f} s"
        case JobState.WAITING:
            return f"waits ≥ {job.wait or 0.0:.1f} s"
        case JobState.DELETED:
            return f"deleted after {job.wait or 0.0:.1f} s"


def _job_table(jobs: Sequence[tuple[JobResult, JobResult]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title="jobs that changed most")
    for title in ("job", "queue", "priority"):
        table.add_column(title, no_wrap=True)
    table.add_column("waited", justify="right", no_wrap=True)
    table.add_column("evicted", justify="right", no_wrap=True)
    for old, new in jobs:
        table.add_row(
            escape(old.job),
            escape(old.queue),
            escape(old.priority),
            _change(wait_text(old), wait_text(new)),
            _change(old.evictions, new.evictions),
        )
    return table


def what_if_json(found: WhatIf) -> dict[str, Any]:
    return {
        "candidate": found.candidate,
        "seconds": found.seconds,
        "sessions": found.sessions,
        "problems": list(found.problems),
        "assumptions": list(found.assumptions),
        "summary": summary(found.goals),
        "goals": [
            {
                "name": goal.name,
                "text": goal.text,
                "unit": goal.unit,
                "old": goal.old,
                "new": goal.new,
                "difference": goal.difference,
                "verdict": str(goal.verdict),
                "old_is_lower_bound": goal.old_is_bound,
                "new_is_lower_bound": goal.new_is_bound,
            }
            for goal in found.goals
        ],
        "faults": [asdict(fault) for fault in found.faults],
        "old": _figures_json(found.old),
        "new": _figures_json(found.new),
    }


def ranking_json(found: Sequence[Ranked]) -> dict[str, Any]:
    """All candidates, best first."""
    return {
        "candidates": [
            {
                **what_if_json(one.run),
                "better": one.better,
                "worse": one.worse,
                "dominated": one.is_dominated,
            }
            for one in found
        ]
    }


def _figures_json(held: Figures) -> dict[str, Any]:
    curves = held.curves
    return {
        "queues": {queue or "all": asdict(made) for queue, made in held.queues.items()},
        "jobs": {name: asdict(job) for name, job in held.jobs.items()},
        "evictions": held.evictions,
        "shares": held.shares,
        "useful_shares": held.useful_shares,
        "lost": held.lost,
        "fairness": held.fairness,
        "curve": [
            {
                "second": second,
                "waiting": curves.waiting_pods[point],
                "fairness": curves.fairness[point],
                "cpu_share": curves.held["cpu"][point] if "cpu" in curves.held else 0.0,
                "shares": {name: values[point] for name, values in curves.held.items()},
            }
            for point, second in enumerate(curves.seconds)
        ],
    }
