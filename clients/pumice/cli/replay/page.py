"""``pumice replay REC --conf NEW --page FILE.html``: the verdict as one self-contained page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pumice.cli.replay.plot import svg_plot
from pumice.cli.replay.verdicts import (
    amount,
    changed_jobs,
    difference_text,
    goal_texts,
    wait_text,
)
from pumice.evaluation import WhatIf
from pumice.evaluation.goals import summary
from pumice.evaluation.ranking import Ranked

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:62em;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 0 1.4em}th,td{padding:.2em .7em;text-align:right;
border-bottom:1px solid #ddd;white-space:nowrap}th:first-child,td:first-child{text-align:left}
.better{color:#1d7a35;font-weight:600}.worse{color:#b3261e;font-weight:600}
.same,.unknown{color:#777}.detail td{color:#555}pre{background:#f5f5f5;padding:.8em;overflow:auto}
svg{max-width:100%;height:auto}
""".strip()


def html_page(title: str, found: Sequence[Ranked], commands: Sequence[str]) -> str:
    """An HTML document without external resources."""
    first = found[0].run
    named = [(one.run.candidate, one.run.new) for one in found]
    body = [f"<h1>{escape(title)}</h1>", _facts(first)]
    if len(found) > 1:
        body.append(_ranking(found))
    body.append(svg_plot(first.old, named, "recorded and what-if runs"))
    for one in found:
        body += _candidate(one.run)
    body.append("<h2>Commands</h2>")
    body.append(f"<pre>{escape(chr(10).join(commands))}</pre>")
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _facts(run: WhatIf) -> str:
    problems = "".join(f"<p><b>Note:</b> {escape(text)}</p>" for text in run.problems)
    jobs = len(run.old.jobs)
    return f"<p>{run.seconds:.0f} s of the cluster's time, {jobs} jobs.</p>{problems}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], kinds: Iterable[str] = ()) -> str:
    """A table; cells are HTML."""
    titles = "".join(f"<th>{cell}</th>" for cell in head)
    given = iter(kinds)
    lines = "".join(
        f'<tr class="{next(given, "")}">' + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n"
        for row in rows
    )
    return f"<table><tr>{titles}</tr>\n{lines}</table>"


def _ranking(found: Sequence[Ranked]) -> str:
    rows = [
        (
            escape(one.run.candidate),
            str(one.better),
            str(one.worse),
            "another candidate is as good in all goals" if one.is_dominated else "",
        )
        for one in found
    ]
    return "<h2>Candidates, best first</h2>" + _table(
        ("candidate", "goals better", "goals worse", ""), rows
    )


def _candidate(run: WhatIf) -> list[str]:
    goals = [
        (
            escape(goal.text),
            *map(escape, goal_texts(goal)),
            escape(difference_text(goal)),
            f'<span class="{goal.verdict}">{goal.verdict}</span>',
        )
        for goal in run.goals
    ]
    kinds = ["detail" if goal.is_detail else "" for goal in run.goals]
    jobs = [
        (escape(old.job), escape(old.queue), escape(old.priority), wait_text(old), wait_text(new))
        for old, new in changed_jobs(run)
    ]
    parts = [
        f"<h2>{escape(run.candidate)}: {escape(summary(run.goals))}</h2>",
        _table(("goal", "old", "new", "difference", ""), goals, kinds),
        _utilisation(run),
    ]
    if jobs:
        parts.append("<h3>Jobs that changed most</h3>")
        parts.append(_table(("job", "queue", "priority", "waited, old", "new"), jobs))
    items = "".join(f"<li>{escape(text)}</li>" for text in run.assumptions)
    return [*parts, f"<h3>Assumptions</h3><ul>{items}</ul>"]


def _utilisation(run: WhatIf) -> str:
    """The used shares of resources, with and without lost work."""
    names = dict.fromkeys([*run.old.shares, *run.new.shares])
    rows = [
        (
            escape(name),
            *(amount(held.shares.get(name, 0.0), "share") for held in (run.old, run.new)),
            *(amount(held.useful_shares.get(name, 0.0), "share") for held in (run.old, run.new)),
        )
        for name in names
    ]
    head = ("resource", "used, old", "new", "without lost work, old", "new")
    return "<h3>Utilisation</h3>" + _table(head, rows)
