"""``pumice replay REC --conf NEW``: what-if runs of candidates, and their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pumice.cli.errors import FAILED
from pumice.cli.replay.candidates import input_problems, replay_command_line
from pumice.cli.replay.files import readable_files
from pumice.cli.replay.page import html_page
from pumice.cli.replay.plot import svg_plot
from pumice.cli.replay.verdicts import print_ranking, print_what_if, ranking_json, what_if_json
from pumice.cli.terminal import print_error, print_json
from pumice.evaluation import Candidate, Options, WhatIf, fault_text, what_if
from pumice.evaluation.processes import judge
from pumice.evaluation.ranking import Ranked, ranked

Progress = Callable[[str], AbstractContextManager[Callable[[int], None] | None]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The input of what-if runs, and the outputs of the verdict."""

    paths: Sequence[Path]
    candidates: Sequence[Candidate]
    options: Options
    goals: Sequence[str] = ()
    processes: int | None = None
    plot: Path | None = None
    page: Path | None = None
    as_json: bool = False
    # The options that define each candidate, and the common settings.
    sources: Sequence[Sequence[str]] = ()
    shared: Candidate = field(default_factory=Candidate)


def judge_candidates(asked: Judgement, progress: Progress) -> int:
    codes = [0]
    paths = readable_files(asked.paths, codes) if len(asked.paths) > 1 else list(asked.paths)
    with input_problems():
        runs = _runs(asked, paths, progress)
        order = ranked(runs, asked.goals)
    for run in runs:
        if run.faults:
            rest = "" if asked.options.allow_faults else "; the run ended there, and is not judged"
            print_error(f"{run.candidate}: {fault_text(run.faults)}{rest}")
            codes.append(FAILED)
    judged = [one for one in order if asked.options.allow_faults or not one.run.faults]
    if judged:
        _write(asked, paths, judged)
        _print_ranking(asked, judged)
    return max(codes)


def _runs(asked: Judgement, paths: Sequence[Path], progress: Progress) -> list[WhatIf]:
    if len(asked.candidates) == 1:
        with progress("replaying") as on_session:
            return [what_if(paths, asked.candidates[0], asked.options, on_session)]
    count = min(len(asked.candidates), asked.processes or len(asked.candidates))
    with judge(paths, asked.options, asked.processes and count) as run_all:
        return run_all(asked.candidates)


def _print_ranking(asked: Judgement, judged: Sequence[Ranked]) -> None:
    several = len(asked.candidates) > 1
    if asked.as_json:
        print_json(ranking_json(judged) if several else what_if_json(judged[0].run))
        return
    for one in reversed(judged):
        print_what_if(one.run)
    if several:
        print_ranking(judged, asked.goals)


def _write(asked: Judgement, paths: Sequence[Path], judged: Sequence[Ranked]) -> None:
    """Writes the plot and the page."""
    first = judged[0].run
    name = paths[0].name if len(paths) == 1 else f"{paths[0].name} to {paths[-1].name}"
    if asked.plot is not None:
        named = [(one.run.candidate, one.run.new) for one in judged]
        drawn = svg_plot(first.old, named, f"{name}: {first.seconds:.0f} s")
        asked.plot.write_text(drawn, encoding="utf-8")
    if asked.page is not None:
        commands = [replay_command_line(paths, source, asked.shared) for source in asked.sources]
        asked.page.write_text(html_page(name, judged, commands), encoding="utf-8")
