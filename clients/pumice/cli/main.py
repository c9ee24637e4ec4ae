"""``pumice``: the root of all commands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import click

from pumice.cli.errors import BAD_INPUT, FAILED, one_line
from pumice.cli.groups import LazyCommand, LazyGroup
from pumice.cli.log_flags import with_log_flags_last
from pumice.cli.terminal import json_option, prepare_streams, print_error, print_json

# In the order of the help.
COMMANDS: Mapping[str, LazyCommand] = {
    "run": LazyCommand(
        "pumice.cli.run:run_command", "Core and adapter for a Kubernetes cluster, as one command."
    ),
    "core": LazyCommand("pumice.server.commands:core_command", "Core, to which adapters connect."),
    "controllers": LazyCommand(
        "pumice.controllers.commands:controllers_command",
        "Controllers of a Kubernetes cluster, such as the Job controller.",
    ),
    **{
        name: LazyCommand(f"pumice.controllers.vcctl.commands:{name}_group", text)
        for name, text in (
            ("job", "Jobs of a Kubernetes cluster: run, list, view, suspend, resume, delete."),
            ("queue", "Queues of a Kubernetes cluster: create, list, get, operate, delete."),
            ("jobflow", "JobFlows of a Kubernetes cluster: create, list, get, describe, delete."),
            ("jobtemplate", "JobTemplates: create, list, get, describe, delete."),
            ("podgroup", "PodGroups of a Kubernetes cluster: list, get, delete."),
            ("pod", "Pods of jobs and queues of a Kubernetes cluster: list."),
        )
    },
    "admission": LazyCommand(
        "pumice.controllers.admission.commands:admission_group",
        "Policies of the API server from Volcano's admission settings.",
    ),
    "demo": LazyCommand(
        "pumice.cli.demo:demo_command", "Core and simulated cluster, with a live view."
    ),
    "top": LazyCommand(
        "pumice.cli.queries.top:top_command", "Queues, nodes and slow plugins, live."
    ),
    "show": LazyCommand(
        "pumice.cli.queries.show:show_group",
        "Clusters, queues, jobs, nodes, sessions and configuration.",
    ),
    "explain": LazyCommand(
        "pumice.cli.queries.explain:explain_group", "Reasons why a job or pod waits."
    ),
    "eta": LazyCommand(
        "pumice.cli.queries.eta:eta_command", "Estimate of when a job or pod starts."
    ),
    "schedule": LazyCommand(
        "pumice.cli.queries.schedule:schedule_command",
        "Decisions for a manifest, without applying it.",
    ),
    "watch": LazyCommand("pumice.cli.queries.watch:watch_command", "Decisions of sessions, live."),
    "forget": LazyCommand(
        "pumice.cli.queries.forget:forget_command", "Removal of a cluster from a core."
    ),
    "record": LazyCommand("pumice.cli.record:record_command", "Recording of a running core."),
    "replay": LazyCommand(
        "pumice.cli.replay:replay_command", "Replay of recordings, and comparison of decisions."
    ),
    "tune": LazyCommand(
        "pumice.cli.tune:tune_command", "Search for better settings over recordings."
    ),
    "recording": LazyCommand(
        "pumice.cli.recording:recording_group",
        "Facts about recordings, and copies of them: cut, joined or anonymised.",
    ),
    "simulate": LazyCommand(
        "pumice.cli.simulate:simulate_command", "Decisions for clusters in files, without a core."
    ),
    "conf": LazyCommand("pumice.cli.conf:conf_group", "Check of scheduler configurations."),
    "bench": LazyCommand("pumice.bench.commands:bench_command", "Benchmarks."),
    "completion": LazyCommand(
        "pumice.cli.completion:completion_command", "Completion script for a shell."
    ),
}
_FOR_OBJECTS = frozenset(
    name for name, one in COMMANDS.items() if one.place.startswith("pumice.controllers.vcctl.")
)
# Volcano's command line program; a link of this name to pumice behaves like it.
_VCCTL = "vcctl"
# Other programs of Volcano; links of these names to pumice have their flags.
_SHORT_COMMANDS = ("vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume")
ADAPTERS: Mapping[str, LazyCommand] = {
    "kubernetes": LazyCommand(
        "pumice.adapters.kubernetes.commands:kubernetes_command", "A Kubernetes cluster."
    ),
    "simulated": LazyCommand(
        "pumice.adapters.simulated.commands:simulated_command",
        "A simulated cluster, in memory or in a file.",
    ),
    "replay": LazyCommand(
        "pumice.adapters.replay.commands:replay_command", "A recording, at any speed."
    ),
}


def _print_version(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given:
        click.echo(f"pumice {metadata.version('pumice')}")
        context.exit()


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Version of pumice.",
)
@click.option("--traceback", is_flag=True, hidden=True, help="Traceback of an error.")
def pumice(traceback: bool) -> None:
    """A batch scheduler for Kubernetes, drop-in for Volcano.

    The exit code is 0 on success, 1 if a check failed and 2 if the input is invalid.
    """


@pumice.group(
    cls=LazyGroup, lazy_commands=ADAPTERS, short_help="Adapter that connects a cluster to a core."
)
def adapter() -> None:
    """Connects a cluster to a core."""


@pumice.command(short_help="Version of pumice.")
@json_option
@click.pass_context
def version(context: click.Context, as_json: bool) -> None:
    """Prints the version."""
    text = metadata.version("pumice")
    if as_json:
        print_json({"version": text})
    elif context.find_root().info_name == _VCCTL:
        click.echo(f"API Version: v1alpha1\nVersion: {text} (pumice)")
    else:
        click.echo(f"pumice {text}")


@pumice.command("help", short_help="Help of a command.")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def show_help(context: click.Context, words: tuple[str, ...]) -> None:
    """Prints the help of pumice, or of a command such as `job run`."""
    assert context.parent is not None
    shown = context.parent
    for word in words:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"{shown.command_path!r} has no commands", shown)
        _, command, _ = shown.command.resolve_command(shown, [word])
        assert command is not None
        shown = click.Context(command, parent=shown, info_name=word)
    click.echo(shown.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a command; turns errors into a line on stderr and an exit code."""
    prepare_streams()
    if arguments is None:
        sys.exit(run(sys.argv[1:], Path(sys.argv[0]).name))
    sys.exit(run(arguments))


def run(arguments: list[str], program: str = "") -> int:
    """Runs a command, and returns its exit code. ``program`` may be a program of Volcano."""
    shows_traces = arguments[:1] == ["--traceback"]
    try:
        code = _run(arguments, program)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        if shows_traces:
            raise
        print_error(f"{_with_full_stop(error.format_message())} {_hint(error, program)}")
        return error.exit_code
    except click.ClickException as error:
        if shows_traces:
            raise
        print_error(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted")
        return 130
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        sys.stdout = None
        return FAILED
    except OSError as error:
        if shows_traces:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print_error(f"{where}{error.strerror or error}")
        return BAD_INPUT
    except Exception as error:
        if shows_traces:
            raise
        print_error(
            f"internal error: {type(error).__name__}: {one_line(str(error))}; "
            "this is a bug; 'pumice --traceback …' shows where"
        )
        return FAILED
    return code if isinstance(code, int) else 0


def _run(arguments: list[str], program: str) -> object:
    if program in _SHORT_COMMANDS:
        command = LazyCommand(f"pumice.controllers.vcctl.commands:{program}", "").load()
        return command.main(arguments, prog_name=program, standalone_mode=False)
    arguments = with_log_flags_last(arguments, _FOR_OBJECTS)
    name = _VCCTL if program == _VCCTL else "pumice"
    return pumice.main(arguments, prog_name=name, standalone_mode=False)


def _with_full_stop(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _hint(error: click.UsageError, program: str) -> str:
    name = program if program in _SHORT_COMMANDS else "pumice"
    path = error.ctx.command_path if error.ctx is not None else name
    return f"See '{path} --help'."
