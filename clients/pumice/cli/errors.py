"""What goes wrong on the command line, as one line and an exit code."""

from __future__ import annotations

import click

FAILED = 1
BAD_INPUT = 2


class InputProblem(click.ClickException):
    """Something given that cannot be used: says what, where and what is allowed."""

    exit_code = BAD_INPUT


def one_line(text: str) -> str:
    """A message without its line breaks, whoever wrote it."""
    return " ".join(text.split())
