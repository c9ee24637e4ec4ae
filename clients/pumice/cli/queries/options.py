"""Common options of commands that query a core: the connection and the output format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, Unpack

import click
import yaml

from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.terminal import print_json
from pumice.client import (
    AccessDeniedError,
    ArgumentError,
    Client,
    ClientError,
    ClientSettings,
    CoreUnavailableError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    SettingsError,
)
from pumice.client.settings import SettingsArguments

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("table", "json", "yaml")
# Commands are interactive, so calls to a core that does not answer are retried only briefly.
_DEFAULTS = ClientSettings(retry_seconds=1.0)
# Maximum number of different mistakes in one message.
_MOST_REJECTED = 3
_FILE = click.Path(exists=True, dir_okay=False)


class CoreProblem(click.ClickException):
    """A core that does not answer, or answers with an error."""

    exit_code = FAILED


def core_options(command: F) -> F:
    """Adds ``--core`` and the other settings of the connection."""
    for option in reversed(
        (
            click.option(
                "--core",
                "address",
                metavar="ADDRESS",
                help="Address of the core: HOST:PORT or unix:/path.",
            ),
            click.option(
                "--cluster", metavar="NAME", help="Name of the cluster, if the core serves several."
            ),
            click.option(
                "--timeout",
                "timeout_seconds",
                type=float,
                metavar="SECONDS",
                help="Timeout of a call; default 30.",
            ),
            click.option("--token-file", type=_FILE, help="File with a bearer token."),
            click.option("--tls-ca", type=_FILE, help="CA of the core's certificate, a PEM file."),
            click.option("--tls-cert", type=_FILE, help="Certificate of the client, a PEM file."),
            click.option("--tls-key", type=_FILE, help="Key of the client, a PEM file."),
            click.option(
                "--tls-server-name", metavar="NAME", help="Name in the core's certificate."
            ),
            click.option(
                "--insecure",
                is_flag=True,
                default=None,
                help="Permission to send a token to another machine without TLS.",
            ),
        )
    ):
        command = option(command)
    return command


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``-o FORMAT`` and its short form ``--json``."""

    @wraps(command)
    def with_format(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        if as_json:
            kwargs["output"] = "json"
        return command(*args, **kwargs)

    output = click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    short = click.option("--json", "as_json", is_flag=True, help="Same as -o json.")
    return output(short(with_format))


def print_value(value: object, output: str) -> None:
    """Prints a value as JSON or YAML."""
    if output == "json":
        print_json(value)
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


@contextmanager
def core(**arguments: Unpack[SettingsArguments]) -> Iterator[Client]:
    """A client whose errors become a line on stderr and an exit code."""
    try:
        with Client(ClientSettings.load(defaults=_DEFAULTS, **arguments)) as client:
            yield client
    except (ArgumentError, SettingsError) as error:
        raise InputProblem(str(error)) from None
    except ClientError as error:
        raise _problem(error) from None


def _rejections(error: InvalidRequestError) -> str:
    """Each mistake in the objects or the configuration once; empty if the error is about neither."""
    if problems := [str(bad) for bad in error.problems if bad.line]:
        return f"configuration {'; '.join(problems)}"
    keys: dict[str, list[str]] = {}
    for bad in error.rejected:
        keys.setdefault(f"{bad.field} {bad.problem}", []).append(bad.key)
    mistakes = []
    for mistake, objects in list(keys.items())[:_MOST_REJECTED]:
        others = f" (and {len(objects) - 1} more objects)" if len(objects) > 1 else ""
        mistakes.append(f"{objects[0]}: {mistake}{others}")
    return "; ".join(mistakes)


def _problem(error: ClientError) -> click.ClickException:
    text = str(error)
    match error:
        case CoreUnavailableError() if not error.details.advice:
            advice = "start one with 'pumice core', or name another with --core or PUMICE_ADDRESS"
            return CoreProblem(f"{text}; {advice}")
        case NotFoundError():
            near = [name for name in error.nearest_names if name not in text]
            hint = f"did you mean {', '.join(near)}?" if near else error.details.advice
            return InputProblem(f"{text}; {hint}" if hint and not _names(error, text) else text)
        case InvalidRequestError():
            return InputProblem(_rejections(error) or text)
        case AccessDeniedError() if error.reason == "TOKEN_INVALID":
            return InputProblem(f"{text}; set one with --token-file or PUMICE_TOKEN")
        case AccessDeniedError() | LimitExceededError():
            return InputProblem(f"{text}; {error.advice}")
    return CoreProblem(f"{text}; {error.advice}")


def _names(error: NotFoundError, text: str) -> bool:
    """Whether the core's message already contains the nearest names."""
    return bool(error.nearest_names) and all(name in text for name in error.nearest_names)
