"""``pumice``: the command groups of every room, put together here and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import metadata

import click

from pumice.cli.composed import Composed, Room
from pumice.cli.errors import BAD_INPUT, FAILED, one_line
from pumice.cli.terminal import complain, json_option, say_json

# In the order in which they are listed.
COMMANDS: Mapping[str, Room] = {
    "simulate": Room(
        "pumice.cli.simulate:simulate_command", "Runs clusters in files through the engine."
    ),
    "conf": Room("pumice.cli.conf:conf_group", "Checks scheduler configurations."),
    "core": Room("pumice.server.commands:core_command", "Runs a core, which adapters connect to."),
    "run": Room("pumice.cli.run:run_command", "Schedules a Kubernetes cluster: core and adapter."),
    "demo": Room("pumice.cli.demo:demo_command", "Runs a core and a simulated cluster, live."),
    "schedule": Room(
        "pumice.cli.queries.schedule:schedule_command",
        "Says what would become of a manifest; changes nothing.",
    ),
    "explain": Room(
        "pumice.cli.queries.explain:explain_group", "Says why a job or pod stands where it stands."
    ),
    "show": Room(
        "pumice.cli.queries.show:show_group", "Shows queues, jobs, nodes, sessions, configuration."
    ),
    "top": Room("pumice.cli.queries.top:top_command", "Shows queues and the fullest nodes, live."),
    "watch": Room("pumice.cli.queries.watch:watch_command", "Shows decisions as they are made."),
    "record": Room("pumice.cli.record:record_command", "Records a running core into a file."),
    "replay": Room("pumice.cli.replay:replay_command", "Replays recordings, and compares them."),
    "bench": Room("pumice.bench.commands:bench_command", "Measures, one line of JSON a result."),
    "completion": Room(
        "pumice.cli.completion:completion_command", "Prints a script that completes in a shell."
    ),
}
ADAPTERS: Mapping[str, Room] = {
    "kubernetes": Room(
        "pumice.adapters.kubernetes.commands:kubernetes_command", "A Kubernetes cluster."
    ),
    "simulated": Room(
        "pumice.adapters.simulated.commands:simulated_command",
        "A simulated cluster, in memory or in a file.",
    ),
    "replay": Room("pumice.adapters.replay.commands:replay_command", "A recording, at any speed."),
}


@click.group(cls=Composed, rooms=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--traceback", is_flag=True, hidden=True, help="Shows where an error comes from.")
def pumice(traceback: bool) -> None:
    """A batch scheduler for Kubernetes, drop-in for Volcano.

    The exit code is 0 when all is well, 1 when a check failed and 2 when the input is wrong.
    """


@pumice.group(cls=Composed, rooms=ADAPTERS)
def adapter() -> None:
    """Connects a cluster to a core."""


@pumice.command()
@json_option
def version(as_json: bool) -> None:
    """Prints the version."""
    text = metadata.version("pumice")
    if as_json:
        say_json({"version": text})
    else:
        click.echo(f"pumice {text}")


def main(arguments: list[str] | None = None) -> None:
    """The entry point: runs a command and turns whatever goes wrong into a line and a code."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(given))


def run(arguments: list[str]) -> int:
    shows_traces = arguments[:1] == ["--traceback"]
    try:
        code = pumice.main(arguments, prog_name="pumice", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        if shows_traces:
            raise
        complain(f"{_with_full_stop(error.format_message())} {_hint(error)}")
        return error.exit_code
    except click.ClickException as error:
        if shows_traces:
            raise
        complain(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted")
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stdout = None
        return FAILED
    except OSError as error:
        if shows_traces:
            raise
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or error}")
        return BAD_INPUT
    except Exception as error:
        if shows_traces:
            raise
        complain(
            f"internal error: {type(error).__name__}: {one_line(str(error))}; "
            "this is a bug, 'pumice --traceback …' shows where"
        )
        return FAILED
    return code if isinstance(code, int) else 0


def _with_full_stop(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _hint(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx is not None else "pumice"
    return f"See '{path} --help'."
