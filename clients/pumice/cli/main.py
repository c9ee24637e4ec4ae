"""``pumice``: the command groups of every room, put together here and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module, metadata, util
from typing import Any

import click

from pumice.cli.errors import BAD_INPUT, FAILED, one_line
from pumice.cli.terminal import complain, json_option, say_json

# Command to module and attribute, in the order in which they are listed. They are imported when
# they are called, so that none waits for what another one needs.
COMMANDS: Mapping[str, str] = {
    "simulate": "pumice.cli.simulate:simulate_command",
    "conf": "pumice.cli.conf:conf_group",
    "core": "pumice.server.commands:core_command",
    "run": "pumice.adapters.kubernetes.commands:run_command",
    "demo": "pumice.cli.demo:demo_command",
    "schedule": "pumice.cli.asking.schedule:schedule_command",
    "explain": "pumice.cli.asking.explain:explain_group",
    "show": "pumice.cli.asking.show:show_group",
    "top": "pumice.cli.asking.top:top_command",
    "watch": "pumice.cli.asking.watch:watch_command",
    "record": "pumice.cli.record:record_command",
    "replay": "pumice.cli.replay:replay_command",
    "bench": "pumice.bench.commands:bench_command",
    "completion": "pumice.cli.completion:completion_command",
}
ADAPTERS: Mapping[str, str] = {
    "kubernetes": "pumice.adapters.kubernetes.commands:kubernetes_command",
    "simulated": "pumice.adapters.simulated.commands:simulated_command",
    "replay": "pumice.adapters.replay.commands:replay_command",
}


class Composed(click.Group):
    """A group of commands that are named where they are, and imported when they are called."""

    def __init__(self, *args: Any, rooms: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rooms = rooms or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        there = [name for name, place in self._rooms.items() if _exists(place)]
        return [*there, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._rooms.get(cmd_name)
        if place is None or not _exists(place):
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        known = self.list_commands(ctx)
        if word not in known and not word.startswith("-"):
            near = get_close_matches(word, known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            raise click.UsageError(f"unknown command {word!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


def _exists(place: str) -> bool:
    """A room may not have its commands yet."""
    try:
        return util.find_spec(place.partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False


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
