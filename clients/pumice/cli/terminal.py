"""The output of all commands: streams, colours and ``--json``."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
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


def prepare_streams() -> None:
    """Makes stdout and stderr accept every text, in any locale and if they are closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # The process was started with a closed descriptor.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            # Characters that the locale lacks, and bytes of file names that are not text.
            stream.reconfigure(errors="backslashreplace")


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_warning(text: str) -> None:
    """Prints a warning on stderr."""
    _print_on_stderr(f"[yellow]pumice: warning:[/] {escape(one_line(text))}")


def print_error(text: str) -> None:
    """Prints an error on stderr, as one line."""
    _print_on_stderr(f"[bold red]pumice:[/] {escape(one_line(text))}")


def _print_on_stderr(markup: str) -> None:
    # Without a reader of stderr, the exit code still tells what happened.
    with suppress(OSError):
        console(stderr=True).print(markup, soft_wrap=True)
