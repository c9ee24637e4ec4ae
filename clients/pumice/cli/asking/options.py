"""How a command reaches a core, and in which form it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import click
import yaml

from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.terminal import say_json
from pumice.client import Client, ClientError, ClientSettings, SettingsError
from pumice.client.errors import (
    CoreUnavailableError,
    DeniedError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
)

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("table", "json", "yaml")
# Mistakes that are told at once; many objects may share one.
_MOST_REJECTED = 3
_FILE = click.Path(exists=True, dir_okay=False)


class CoreProblem(click.ClickException):
    """A core that does not answer as it should."""

    exit_code = FAILED


def core_options(command: F) -> F:
    """``--core`` and what goes with it; what is not given comes from environment and file."""
    for option in reversed(
        (
            click.option("--core", "address", metavar="ADDRESS", help="HOST:PORT or unix:/path."),
            click.option("--cluster", help="Which one, if the core serves several."),
            click.option("--timeout", "timeout_seconds", type=float, help="Seconds for a call."),
            click.option("--token-file", type=_FILE, help="A file that holds a bearer token."),
            click.option("--tls-ca", type=_FILE, help="Certificate of the core's authority, PEM."),
            click.option("--tls-cert", type=_FILE, help="This caller's certificate, PEM."),
            click.option("--tls-key", type=_FILE, help="This caller's key, PEM."),
            click.option("--tls-server-name", help="The name in the core's certificate."),
            click.option(
                "--insecure",
                is_flag=True,
                default=None,
                help="Sends a token to another machine without TLS.",
            ),
        )
    ):
        command = option(command)
    return command


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``-o FORMAT``, of which ``--json`` is the short form."""

    @wraps(command)
    def with_format(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        if as_json:
            kwargs["output"] = "json"
        return command(*args, **kwargs)

    told = click.option(
        "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True
    )
    short = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
    return told(short(with_format))


def say(value: object, output: str) -> None:
    """For programs: JSON or YAML."""
    if output == "json":
        say_json(value)
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


@contextmanager
def core(**given: Any) -> Iterator[Client]:
    """A client; what goes wrong with it becomes a line and an exit code."""
    try:
        settings = ClientSettings.load(**given)
        with Client(settings) as client:
            yield client
    except SettingsError as error:
        raise InputProblem(str(error)) from None
    except ClientError as error:
        raise _problem(error) from None


def _told(error: InvalidRequestError, text: str) -> str:
    """What is wrong, each thing once, and where."""
    problems = [bad for bad in error.detail.problems if bad.line]
    if problems:
        lines = (f"line {bad.line}: {bad.path}: {bad.problem}" for bad in problems)
        return f"configuration {'; '.join(lines)}"
    alike: dict[str, list[str]] = {}
    for bad in error.detail.rejected:
        alike.setdefault(f"{bad.field} {bad.reason}", []).append(bad.key)
    told = []
    for what, keys in list(alike.items())[:_MOST_REJECTED]:
        others = f" (and {len(keys) - 1} more objects)" if len(keys) > 1 else ""
        told.append(f"{keys[0]}: {what}{others}")
    return "; ".join(told) or text


def _problem(error: ClientError) -> click.ClickException:
    text = str(error)
    if isinstance(error, CoreUnavailableError) and not (error.detail.reason or error.advice):
        return CoreProblem(
            f"{text}; start one with 'pumice core', or name another with --core or PUMICE_ADDRESS"
        )
    if isinstance(error, NotFoundError):
        near = [name for name in error.nearest_names if name not in text]
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        if not error.nearest_names and error.advice:
            hint = f"; {error.advice}"
        return InputProblem(f"{text}{hint}")
    if isinstance(error, InvalidRequestError):
        return InputProblem(_told(error, text))
    if error.detail.reason == "TokenError":
        return InputProblem(f"{text}; give one with --token-file or PUMICE_TOKEN")
    if isinstance(error, DeniedError | LimitExceededError) and error.advice:
        return InputProblem(f"{text}; {error.advice}")
    return CoreProblem(f"{text}; {error.advice}" if error.advice else text)
