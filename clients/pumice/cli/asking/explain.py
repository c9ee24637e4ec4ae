"""``pumice explain``: why a job or pod stands where it stands."""

from __future__ import annotations

from typing import Any

import click
from google.protobuf.json_format import MessageToDict
from rich.markup import escape

from pumice.cli.asking.options import core, core_options, output_options, say
from pumice.cli.asking.tables import amount, table
from pumice.cli.terminal import console
from pumice.client.models import ExplanationView

# A person would rather wait for the running session than hear nothing of nodes.
_PATIENCE_SECONDS = 10.0
_COLOURS = {"passed": "green", "held back": "yellow"}
_nearest_option = click.option(
    "--nearest",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="Nodes to say more about.  [default: 5]",
)


@click.group("explain")
def explain_group() -> None:
    """Says why a job or pod stands where it stands."""


@explain_group.command("job")
@click.argument("name", metavar="NAMESPACE/NAME")
@_nearest_option
@core_options
@output_options
def job_command(name: str, nearest: int, output: str, **reached: Any) -> int:
    """Explains a PodGroup, or the Volcano Job that one was made for."""
    with core(**reached) as client:
        _tell(client.explain_job(name, nearest, _PATIENCE_SECONDS), output)
    return 0


@explain_group.command("pod")
@click.argument("name", metavar="NAMESPACE/NAME")
@_nearest_option
@core_options
@output_options
def pod_command(name: str, nearest: int, output: str, **reached: Any) -> int:
    """Explains a pod: why it waits, why it is on its node, or for whom it had to go."""
    with core(**reached) as client:
        _tell(client.explain_pod(name, nearest, _PATIENCE_SECONDS), output)
    return 0


def _tell(explanation: ExplanationView, output: str) -> None:
    if output != "table":
        value = MessageToDict(explanation.message)
        value |= {"basedOnSeq": explanation.based_on_seq, "session": explanation.session}
        value |= {"withoutNodes": True} if explanation.without_nodes else {}
        say(value, output)
        return
    out = console()
    out.print(f"[bold]{escape(explanation.sentence)}[/]", soft_wrap=True)
    out.print(f"queue {explanation.queue or '-'}, phase {explanation.phase or '-'}")
    _print_stages(explanation)
    _print_nodes(explanation)
    _print_past(explanation)
    if explanation.without_nodes:
        out.print("[yellow]a long session is running, so nodes were not looked at; ask again[/]")
    out.print(f"[dim]session {explanation.session}, op {explanation.based_on_seq}[/]")


def _print_stages(explanation: ExplanationView) -> None:
    if not any(stage.reasons for stage in explanation.stages):
        return
    stages = table("stage", "result", "why")
    for stage in explanation.stages:
        colour = _COLOURS.get(stage.result, "dim")
        stages.add_row(
            stage.stage, f"[{colour}]{stage.result}[/]", escape("\n".join(stage.reasons))
        )
    console().print(stages)


def _print_nodes(explanation: ExplanationView) -> None:
    message = explanation.message
    if message.nearest_nodes:
        nearest = table(f"nearest nodes for {message.blocking_pod}", "lacks", "says")
        for node in message.nearest_nodes:
            lacks = ", ".join(
                f"{amount(s.resource, s.need - max(0, s.have))} {s.resource}"
                for s in node.shortages
            )
            nearest.add_row(node.node, lacks or "-", escape(", ".join(node.reasons)) or "-")
        console().print(nearest)
    for placement in message.placements:
        if not placement.feasible_node_count:
            # Nobody looked at nodes; where it is stands in the sentence.
            continue
        title = f"nodes for {placement.pod}"
        if placement.session:
            title += f", placed by {placement.action or '?'} in session {placement.session}"
        scores = table(title, "score", "of which", right=("score",))
        for place, scored in enumerate((placement.node, *placement.runners_up)):
            parts = ", ".join(f"{part.plugin} {part.score:g}" for part in scored.parts)
            mark = "  " if place else "[green]*[/] "
            scores.add_row(f"{mark}{scored.node}", f"{scored.score:g}", parts)
        console().print(scores)


def _print_past(explanation: ExplanationView) -> None:
    if explanation.history:
        past = table("since", "until", "sessions", "reason", right=("sessions",))
        for period in explanation.history[-20:]:
            until = "now" if period.current else f"{period.last_seen:%H:%M:%S}"
            past.add_row(
                f"{period.first_seen:%Y-%m-%d %H:%M:%S}",
                until,
                str(period.sessions),
                escape(period.reason),
            )
        console().print(past)
    if explanation.message.evictions:
        evicted = table("evicted", "from", "for", "why", "session", right=("session",))
        for each in explanation.message.evictions:
            evicted.add_row(each.pod, each.node, each.for_job, each.reason, str(each.session))
        console().print(evicted)
