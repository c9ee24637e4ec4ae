"""Errors of commands, with their exit codes."""

from __future__ import annotations

import click

FAILED = 1
BAD_INPUT = 2


class InputProblem(click.ClickException):
    """Invalid input. The message says what is invalid, where, and what is allowed."""

    exit_code = BAD_INPUT


def one_line(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())
