"""What the predicates and scores of an open session say about a task, node by node."""

from __future__ import annotations

import numpy as np

from pumice.core.model.fit import Refusal
from tests.core.plugins.opened import Opened

U, UU = False, True

# A node's reasons in the order it gives them, each with whether no eviction could cure it.
Verdict = list[tuple[str, bool]]


def verdicts(opened: Opened, task_name: str) -> dict[str, Verdict]:
    """By node; a node says nothing more after a reason that is final."""
    session, task = opened.session, opened.task(task_name)
    assert session.feasibility.why_not_anywhere(task) is None
    found: dict[str, Verdict] = {name: [] for name in session.table.names}
    for refusals in session.feasibility.refusals(task, session.view(task)):
        for refusal in refusals:
            _add(found, opened, refusal)
    return found


def _add(found: dict[str, Verdict], opened: Opened, refusal: Refusal) -> None:
    for name, refused in zip(opened.session.table.names, refusal.rows, strict=True):
        if refused and not (found[name] and found[name][-1][1]):
            found[name].append((refusal.reason, refusal.unresolvable))


def why_nowhere(opened: Opened, task_name: str) -> str | None:
    return opened.session.feasibility.why_not_anywhere(opened.task(task_name))


def allowed(opened: Opened, task_name: str) -> list[str]:
    """The nodes that all predicates pass, as allocation asks."""
    session, task = opened.session, opened.task(task_name)
    assert session.feasibility.why_not_anywhere(task) is None
    mask = session.feasibility.allows(task, session.view(task))
    return [name for name, good in zip(session.table.names, mask, strict=True) if good]


def scores(opened: Opened, task_name: str, candidates: list[str] | None = None) -> dict[str, float]:
    """Totals of the candidates, or of all nodes; up to what all of them have in common."""
    session, task = opened.session, opened.task(task_name)
    names = session.table.names if candidates is None else candidates
    rows = np.array(sorted(session.table.names.index(name) for name in names), dtype=np.intp)
    totals = session.choice.scores(task, session.view(task), rows)
    return {session.table.names[row]: float(t) for row, t in zip(rows, totals, strict=True)}
