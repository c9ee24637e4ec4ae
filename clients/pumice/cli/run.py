"""``pumice run``: a core, its Kubernetes adapter and controllers as one command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource

from pumice.adapters.kubernetes.commands import adapter_flags, run_together
from pumice.controllers.commands import controllers_arguments, controllers_option
from pumice.server.commands import keeping_options

_OF_THIS_MACHINE = re.compile(r"unix:.+|(localhost|127\.0\.0\.1|\[::1\]):[1-9]\d{0,4}")
_GIVEN = "pumice.given"


def _check_listen(_context: click.Context, _parameter: click.Parameter, address: str) -> str:
    if address and not _OF_THIS_MACHINE.fullmatch(address):
        raise click.BadParameter(
            f"{address!r} is not an address of this machine; allowed: unix:/path/to/socket, or"
            " 127.0.0.1:PORT. For other machines run 'pumice core' and 'pumice adapter kubernetes' separately"
        )
    return address


_listen_option = click.option(
    "--listen",
    default="",
    metavar="ADDRESS",
    callback=_check_listen,
    help="Address of the core for other commands: unix:/path or 127.0.0.1:PORT; default: a new socket.",
)


@click.command(
    "core",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@_listen_option
@controllers_option
@keeping_options
def _core_part(**_: Any) -> None:
    """Never called; its parser separates the core's arguments from the adapter's."""


class _SplitCommand(click.Command):
    """A command that stores its arguments in two parts: those of the core, and of the adapter."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        with _core_part.make_context("core", given) as part:
            ctx.meta[_GIVEN] = tuple(_core_arguments(part)), tuple(part.args)
        return rest


def _core_arguments(part: click.Context) -> Iterator[str]:
    """The given options of the core as arguments, without ``--listen`` and ``--controllers``."""
    for option in _core_part.params:
        name = option.name or ""
        if (
            name in ("listen", "controllers")
            or part.get_parameter_source(name) is not ParameterSource.COMMANDLINE
        ):
            continue
        word, value = option.opts[0], part.params[name]
        yield word if value is True else f"{word}={value}"


@click.command("run", cls=_SplitCommand)
@adapter_flags
@_listen_option
@controllers_option
@keeping_options
@click.pass_context
def run_command(ctx: click.Context, /, listen: str, controllers: str | None, **values: Any) -> None:
    """Schedules a Kubernetes cluster with a core and its adapter.

    They are two processes with a Unix socket between them; each is restarted when it ends. With
    --controllers a third process runs the controllers. The command accepts the flags of Volcano's
    scheduler, and those of 'pumice core' for recordings, replicas and metrics.
    """
    for_core, for_adapter = ctx.meta[_GIVEN]
    for_controllers = None if controllers is None else controllers_arguments(controllers, values)
    code = run_together(values, for_core, for_adapter, listen, for_controllers)
    if code:
        sys.exit(code)
