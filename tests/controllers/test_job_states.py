"""The table of the state machine: complete, and the same as its page."""

from pathlib import Path

import pytest

from pumice.controllers.job.states import RULES, Rule, rule_for
from pumice.controllers.job.types import Action, Phase

PAGE = Path(__file__).parents[2] / "docs/reference/job-phases.md"


def table() -> str:
    """A Markdown table with a row for every rule."""
    lines = ["| phase | action | deleted pods | retry | next phase |", "|---|---|---|---|---|"]
    for phase in Phase:
        rules = [rule for rule in RULES if phase in rule.phases]
        lines += [_row(phase, rule) for rule in sorted(rules, key=lambda rule: not rule.actions)]
    return "\n".join(lines)


def _row(phase: Phase, rule: Rule) -> str:
    actions = ", ".join(rule.actions) if rule.actions else "any other"
    retry = "+1" if rule.counts_retry else ""
    then = "; ".join(
        f"{next_phase}" if condition.text == "always" else f"{next_phase}, if {condition.text}"
        for condition, next_phase in rule.then
    )
    return f"| {phase} | {actions} | {rule.kill.value} | {retry} | {then or 'stays'} |"


def test_the_page_has_the_table(request: pytest.FixtureRequest) -> None:
    head, begin, rest = PAGE.read_text().partition("<!-- begin rules -->\n")
    held, end, tail = rest.rpartition("<!-- end rules -->")
    if request.config.getoption("--rewrite"):
        PAGE.write_text(f"{head}{begin}{table()}\n{end}{tail}")
    assert held == f"{table()}\n", "pytest --rewrite writes the table"


@pytest.mark.parametrize("phase", Phase)
def test_each_action_has_one_rule_in_each_phase(phase: Phase) -> None:
    for action in Action:
        named = [rule for rule in RULES if phase in rule.phases and action in rule.actions]
        assert len(named) <= 1
        assert phase in rule_for(phase, action).phases
    assert sum(phase in rule.phases and not rule.actions for rule in RULES) == 1


def test_finished_phases_are_never_left() -> None:
    for phase in (Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED):
        assert all(not rule_for(phase, action).then for action in Action)
