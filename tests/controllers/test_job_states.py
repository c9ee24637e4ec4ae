"""The table of the state machine: complete, and the same as its page."""

from pathlib import Path

import pytest

from pumice.controllers.job.rendering import table
from pumice.controllers.job.states import RULES, rule_for
from pumice.controllers.job.types import Action, Phase

PAGE = Path(__file__).parents[2] / "docs/reference/job-phases.md"


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
