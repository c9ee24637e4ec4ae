"""``pumice explain``: why a job or pod waits, or why it is on its node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import click
from rich.markup import escape

from pumice.cli.errors import InputProblem
from pumice.cli.groups import SuggestingGroup
from pumice.cli.queries.options import core, core_options, output_options, print_value
from pumice.cli.queries.pauses import pause_markup
from pumice.cli.queries.schedule import read_manifests
from pumice.cli.queries.suggestions import job_names, suggest
from pumice.cli.queries.tables import Column, FittedTable, number, print_table
from pumice.cli.simulation.sources import read_text
from pumice.cli.terminal import console
from pumice.client import (
    Client,
    ClientError,
    Explanation,
    Manifest,
    NotFoundError,
    StageResult,
)
from pumice.client.amounts import amount
from pumice.client.reasons import why

# Maximum wait for a running session, so that the explanation can include nodes.
_WAIT_SECONDS = 10.0
_NAME_PARTS = 2
_MOST_PERIODS = 20
_OTHER_SCHEDULER = "a core has no pending pods of other schedulers (spec.schedulerName)"
_COLOURS = {StageResult.PASSED: "green", StageResult.HELD_BACK: "yellow"}
_nearest_option = click.option(
    "--nearest",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Number of nearest nodes to show, 5 by default; not with -f or --conf.",
)


def _trial_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``-f`` and ``--conf``, for an explanation of a hypothetical cluster."""
    file = click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE",
        help='Hypothetical manifest, in addition to the cluster; "-" is standard input.',
    )
    conf = click.option("--conf", metavar="FILE", help="Hypothetical scheduler configuration.")
    return file(conf(command))


class _Explained(SuggestingGroup):
    """A group whose error for an object without a kind shows the command with the kind."""

    def hint(self, word: str, names: list[str]) -> str:
        if "/" not in word:
            return super().hint(word, names)
        kind, _, name = word.partition("/")
        if kind in names:
            return f"write 'pumice explain {kind} NAMESPACE/{name}'"
        commands = " or ".join(f"'pumice explain {each} {word}'" for each in names)
        return f"add the kind: {commands}"


class Name(click.ParamType[str]):
    """``NAMESPACE/NAME``; the default namespace is ``default``."""

    name = "name"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        parts = str(value).split("/")
        if len(parts) > _NAME_PARTS or not all(parts):
            self.fail(
                f"invalid name {value!r}; allowed: NAMESPACE/NAME, or NAME in namespace default"
            )
        return str(value)


NAME = Name()
_HORIZON_SECONDS = 24 * 3600.0
_eta_option = click.option(
    "--eta", is_flag=True, help="Estimate of the start within a day; see also 'pumice eta'."
)


class _ExplainArguments(TypedDict, total=False):
    """Arguments of a call for an explanation."""

    nearest: int
    wait_seconds: float
    horizon_seconds: float | None
    manifest: list[Manifest]
    configuration: str


@click.group("explain", cls=_Explained)
def explain_group() -> None:
    """Explains why a job or pod waits, or why it is on its node."""


@explain_group.command("job")
@click.argument("name", metavar="NAMESPACE/NAME", type=NAME, shell_complete=suggest(job_names))
@_nearest_option
@_eta_option
@_trial_options
@core_options
@output_options
def job_command(name: str, output: str, **options: Any) -> int:
    """Explains a PodGroup, or the PodGroup of a Volcano Job."""
    question, connection = _explain_arguments(**options)
    with core(**connection) as client, with_other_kind(client.explain_pod, "pod", name):
        _print(client.explain_job(name, **question(client)), output)
    return 0


@explain_group.command("pod")
@click.argument("name", metavar="NAMESPACE/NAME", type=NAME)
@_nearest_option
@_eta_option
@_trial_options
@core_options
@output_options
def pod_command(name: str, output: str, **options: Any) -> int:
    """Explains a pod: why it waits, why it is on its node, or which job it was evicted for."""
    question, connection = _explain_arguments(**options)
    with core(**connection) as client, with_other_kind(client.explain_job, "job", name):
        _print(client.explain_pod(name, **question(client)), output)
    return 0


def _explain_arguments(
    nearest: int | None,
    eta: bool,
    files: tuple[str, ...],
    conf: str | None,
    **connection: Any,
) -> tuple[Callable[[Client], _ExplainArguments], dict[str, Any]]:
    """The arguments of the call for an explanation, and the options of the connection."""
    if not files and conf is None:
        return lambda client: _live_arguments(client, nearest, eta=eta), connection
    if eta:
        raise click.UsageError(
            "--eta needs an existing job; use 'pumice schedule --eta' for a manifest"
        )
    if nearest is not None:
        raise click.UsageError("--nearest cannot be used with -f or --conf")
    trial = _ExplainArguments()
    if files:
        trial["manifest"] = read_manifests(files)
    if conf is not None:
        trial["configuration"] = read_text(conf)
    return lambda _: trial, connection


def _live_arguments(client: Client, nearest: int | None, *, eta: bool) -> _ExplainArguments:
    question = _ExplainArguments(
        # At most half of the timeout, so that a response without nodes still arrives.
        wait_seconds=min(_WAIT_SECONDS, client.settings.timeout_seconds / 2),
        horizon_seconds=_HORIZON_SECONDS if eta else None,
    )
    if nearest is not None:
        question["nearest"] = nearest
    return question


@contextmanager
def with_other_kind(
    other: Callable[[str], object], kind: str, name: str, command: str = "explain"
) -> Iterator[None]:
    """If the name is not found, suggests the command for an object of the other kind."""
    try:
        yield
    except NotFoundError as error:
        try:
            other(name)
        except ClientError:
            if kind == "job" and not error.nearest_names:
                raise InputProblem(f"{error}; {_OTHER_SCHEDULER}") from None
            raise error from None
        asked = "job" if kind == "pod" else "pod"
        how = f"eta{' --pod' * (kind == 'pod')}" if command == "eta" else f"explain {kind}"
        text = f"{name} is a {kind}, not a {asked}: 'pumice {how} {name}'"
        raise InputProblem(text) from None


def _print(explanation: Explanation, output: str) -> None:
    if output != "table":
        print_value(explanation.to_dict(), output)
        return
    out = console()
    out.print(f"[bold]{escape(explanation.sentence)}[/]", soft_wrap=True)
    if explanation.pause is not None:
        out.print(pause_markup(explanation.pause), soft_wrap=True)
    if explanation.start_estimate is not None:
        out.print(escape(explanation.start_estimate.sentence), soft_wrap=True)
    out.print(f"queue {escape(explanation.queue) or '-'}, phase {explanation.phase or '-'}")
    _print_stages(explanation)
    _print_nearest_nodes(explanation)
    _print_placements(explanation)
    _print_history(explanation)
    _print_evictions(explanation)
    if explanation.without_nodes:
        out.print("[yellow]nodes were not examined because a long session is running; retry[/]")
    session = f"session {explanation.session}" if explanation.session else "hypothetical"
    out.print(f"[dim]{session}, seq {explanation.based_on_seq}[/]")


def _print_stages(explanation: Explanation) -> None:
    if not any(stage.reasons for stage in explanation.stages):
        return
    stages = FittedTable(Column("stage"), Column("result"), Column("why", wraps=True))
    for stage in explanation.stages:
        colour = _COLOURS.get(stage.result, "dim")
        reasons = escape(why(stage.reasons, "\n"))
        stages.add_row(stage.stage, f"[{colour}]{stage.result}[/]", reasons)
    print_table(stages)


def _print_nearest_nodes(explanation: Explanation) -> None:
    if not explanation.nearest_nodes:
        return
    nearest = FittedTable(
        Column(f"nearest nodes for {escape(explanation.blocking_pod)}", shortens=True),
        Column("lacks", wraps=True),
        Column("other reasons", wraps=True),
    )
    for node in explanation.nearest_nodes:
        lacks = ", ".join(
            f"{amount(s.resource, s.need - max(0, s.have))} {s.resource}" for s in node.shortages
        )
        reasons = escape(", ".join(node.reasons))
        nearest.add_row(escape(node.node), escape(lacks) or "-", reasons or "-")
    print_table(nearest)


def _print_placements(explanation: Explanation) -> None:
    for placement in explanation.placements:
        if not placement.feasible_node_count:
            # No nodes were examined; the sentence names the node.
            continue
        title = f"nodes for {escape(placement.pod)}"
        if placement.session:
            action = escape(placement.action) or "?"
            title += f", placed by {action} in session {placement.session}"
        scores = FittedTable(
            Column(title, shortens=True), number("score"), Column("of which", wraps=True)
        )
        for place, scored in enumerate((placement.node, *placement.runners_up)):
            parts = ", ".join(f"{part.plugin} {part.score:g}" for part in scored.parts)
            mark = "  " if place else "[green]*[/] "
            scores.add_row(f"{mark}{escape(scored.node)}", f"{scored.score:g}", escape(parts))
        print_table(scores)


def _print_history(explanation: Explanation) -> None:
    if not explanation.history:
        return
    history = FittedTable(
        Column("since"), Column("until"), number("sessions", rank=1), Column("reason", wraps=True)
    )
    for period in explanation.history[-_MOST_PERIODS:]:
        first, last = period.first_seen_time, period.last_seen_time
        history.add_row(
            f"{first:%Y-%m-%d %H:%M:%S}" if first else "-",
            "now" if period.current or last is None else f"{last:%H:%M:%S}",
            str(period.session_count),
            escape(str(period.reason)),
        )
    print_table(history)


def _print_evictions(explanation: Explanation) -> None:
    if not explanation.evictions:
        return
    evicted = FittedTable(
        Column("evicted", shortens=True),
        Column("from", shortens=True),
        Column("for", shortens=True),
        number("session", rank=1),
        Column("why", wraps=True),
    )
    for each in explanation.evictions:
        names = map(escape, (each.pod, each.node, each.for_job))
        evicted.add_row(*names, str(each.session), escape(each.reason))
    print_table(evicted)
