"""The output of all commands: streams, colours and ``--json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape

from pumice.cli.errors import one_line

F = TypeVar("F", bound=Callable[..., Any])

json_option: Callable[[F], F] = click.option(
    "--json", "as_json", is_flag=True, help="Output as JSON."
)

# Width of wrapped text in a pipe.
_WIDTH_WITHOUT_TERMINAL = 160


def console(*, stderr: bool = False) -> Console:
    """A console for the current stdout or stderr, which tests replace."""
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty()
    return Console(
        file=stream,
        highlight=False,
        soft_wrap=not terminal,
        width=None if terminal else _WIDTH_WITHOUT_TERMINAL,
        no_color=None if terminal else True,
        color_system="auto" if terminal else None,
    )


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_warning(text: str) -> None:
    """Prints a warning on stderr."""
    console(stderr=True).print(
        f"[yellow]pumice: warning:[/] {escape(one_line(text))}", soft_wrap=True
    )


def print_error(text: str) -> None:
    """Prints an error on stderr, as one line."""
    console(stderr=True).print(f"[bold red]pumice:[/] {escape(one_line(text))}", soft_wrap=True)
