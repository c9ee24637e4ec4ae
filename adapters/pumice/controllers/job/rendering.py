"""The documentation of the state machine, made from its table."""

from pumice.controllers.job.states import RULES, Rule
from pumice.controllers.job.types import Phase


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
