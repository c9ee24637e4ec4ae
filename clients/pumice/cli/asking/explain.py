"""``pumice explain``: why a job or pod stands where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.markup import escape

from pumice.cli.asking.options import core, core_options, output_options, say
from pumice.cli.asking.plain import plain
from pumice.cli.asking.suggestions import job_names, suggest
from pumice.cli.asking.tables import print_table, table
from pumice.cli.composed import WordGroup
from pumice.cli.errors import InputProblem
from pumice.cli.terminal import console
from pumice.client import Client, ClientError, NotFoundError
from pumice.client.amounts import amount
from pumice.client.models import ExplanationView

# A person would rather wait for the running session than hear nothing of nodes.
_PATIENCE_SECONDS = 10.0
_PARTS = 2
_UNKNOWN_HERE = "one that waits for another scheduler (spec.schedulerName) is not known to a core"
_COLOURS = {"passed": "green", "held back": "yellow"}
_nearest_option = click.option(
    "--nearest",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    metavar="N",
    help="Nodes to say more about.",
)


class _Explained(WordGroup):
    """Somebody who gives a name at once has not said of what."""

    def hint(self, word: str, known: list[str]) -> str:
        if "/" not in word:
            return super().hint(word, known)
        kind, _, name = word.partition("/")
        if kind in known:
            return f"write 'pumice explain {kind} NAMESPACE/{name}'"
        ways = " or ".join(f"'pumice explain {each} {word}'" for each in known)
        return f"say what it is: {ways}"


class _Name(click.ParamType[str]):
    """``NAMESPACE/NAME``; without a namespace it is in ``default``."""

    name = "name"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        parts = str(value).split("/")
        if len(parts) > _PARTS or not all(parts):
            self.fail(f"{value!r} is no name; allowed: NAMESPACE/NAME, or NAME in default")
        return str(value)


@click.group("explain", cls=_Explained)
def explain_group() -> None:
    """Says why a job or pod stands where it stands."""


@explain_group.command("job")
@click.argument("name", metavar="NAMESPACE/NAME", type=_Name(), shell_complete=suggest(job_names))
@_nearest_option
@core_options
@output_options
def job_command(name: str, nearest: int, output: str, **reached: Any) -> int:
    """Explains a PodGroup, or the Volcano Job that one was made for."""
    with core(**reached) as client, _told_apart(client.explain_pod, "pod", name):
        _tell(client.explain_job(name, nearest, _patience(client)), output)
    return 0


@explain_group.command("pod")
@click.argument("name", metavar="NAMESPACE/NAME", type=_Name())
@_nearest_option
@core_options
@output_options
def pod_command(name: str, nearest: int, output: str, **reached: Any) -> int:
    """Explains a pod: why it waits, why it is on its node, or for whom it had to go."""
    with core(**reached) as client, _told_apart(client.explain_job, "job", name):
        _tell(client.explain_pod(name, nearest, _patience(client)), output)
    return 0


def _patience(client: Client) -> float:
    """No more than half of the time that there is: an answer without nodes is one, too."""
    return min(_PATIENCE_SECONDS, client.settings.timeout_seconds / 2)


@contextmanager
def _told_apart(other: Callable[[str], object], kind: str, name: str) -> Iterator[None]:
    """A name that is not found may be one of the other kind."""
    try:
        yield
    except NotFoundError as error:
        try:
            other(name)
        except ClientError:
            if kind == "job" and not error.nearest_names:
                raise InputProblem(f"{error}; {_UNKNOWN_HERE}") from None
            raise error from None
        asked = "job" if kind == "pod" else "pod"
        text = f"{name} is a {kind}, no {asked}: 'pumice explain {kind} {name}'"
        raise InputProblem(text) from None


def _tell(explanation: ExplanationView, output: str) -> None:
    if output != "table":
        value = plain(explanation.message)
        value |= {"basedOnSeq": explanation.based_on_seq, "session": explanation.session}
        value |= {"withoutNodes": explanation.without_nodes}
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
    stages = table("stage", "result", "why", wide="why")
    for stage in explanation.stages:
        colour = _COLOURS.get(stage.result, "dim")
        stages.add_row(
            stage.stage, f"[{colour}]{stage.result}[/]", escape("\n".join(stage.reasons))
        )
    print_table(stages)


def _print_nodes(explanation: ExplanationView) -> None:
    message = explanation.message
    if message.nearest_nodes:
        nearest = table(f"nearest nodes for {message.blocking_pod}", "lacks", "says", wide="says")
        for node in message.nearest_nodes:
            lacks = ", ".join(
                f"{amount(s.resource, s.need - max(0, s.have))} {s.resource}"
                for s in node.shortages
            )
            nearest.add_row(node.node, lacks or "-", escape(", ".join(node.reasons)) or "-")
        print_table(nearest)
    for placement in message.placements:
        if not placement.feasible_node_count:
            # Nobody looked at nodes; where it is stands in the sentence.
            continue
        title = f"nodes for {placement.pod}"
        if placement.session:
            title += f", placed by {placement.action or '?'} in session {placement.session}"
        scores = table(title, "score", "of which", right=("score",), wide="of which")
        for place, scored in enumerate((placement.node, *placement.runners_up)):
            parts = ", ".join(f"{part.plugin} {part.score:g}" for part in scored.parts)
            mark = "  " if place else "[green]*[/] "
            scores.add_row(f"{mark}{scored.node}", f"{scored.score:g}", parts)
        print_table(scores)


def _print_past(explanation: ExplanationView) -> None:
    if explanation.history:
        past = table("since", "until", "sessions", "reason", right=("sessions",), wide="reason")
        for period in explanation.history[-20:]:
            until = "now" if period.current else f"{period.last_seen:%H:%M:%S}"
            past.add_row(
                f"{period.first_seen:%Y-%m-%d %H:%M:%S}",
                until,
                str(period.sessions),
                escape(period.reason),
            )
        print_table(past)
    if explanation.message.evictions:
        evicted = table("evicted", "from", "for", "session", "why", right=("session",), wide="why")
        for each in explanation.message.evictions:
            evicted.add_row(
                *map(escape, (each.pod, each.node, each.for_job)),
                str(each.session),
                escape(each.reason),
            )
        print_table(evicted)
