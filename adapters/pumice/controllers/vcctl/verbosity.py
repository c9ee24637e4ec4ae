"""The log flags of vcctl: requests on standard error, and flags without effect."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# From this verbosity on, client libraries of Kubernetes write each request.
_REQUESTS: Final = 6
_SHOWS_REQUESTS: Final = "pumice.vcctl.shows_requests"
_WITHOUT_EFFECT: Final = ("--vmodule", "--log-flush-frequency")


def log_options(function: F) -> F:
    """The flags `-v`, `--vmodule` and `--log-flush-frequency`."""
    function = click.option(
        "-v",
        "--v",
        "verbosity",
        default="0",
        callback=_set_verbosity,
        expose_value=False,
        metavar="NUMBER",
        help="klog verbosity; from 6 on, requests to the API server on standard error.",
    )(function)
    for name in _WITHOUT_EFFECT:
        function = click.option(
            name, default=None, callback=_warn_no_effect, expose_value=False, hidden=True
        )(function)
    return function


def log_request(method: str, path: str) -> None:
    """Writes a request to standard error, if the verbosity asks for it."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_SHOWS_REQUESTS):
        click.echo(f"{method} {path}", err=True)


def _set_verbosity(context: click.Context, parameter: click.Parameter, text: str) -> None:
    # With or without the equals sign.
    number = text.removeprefix("=")
    if not number.isascii() or not number.isdigit():
        raise click.BadParameter(f"{text!r} is not a number from 0 on", context, parameter)
    context.meta[_SHOWS_REQUESTS] = int(number) >= _REQUESTS


def _warn_no_effect(context: click.Context, parameter: click.Parameter, text: str | None) -> None:
    if text is not None:
        name = parameter.opts[0]
        click.echo(
            f"pumice: {name} has no effect: the log goes to standard error at once", err=True
        )
