"""The connection of a command to an API server: flags, calls, and errors for the terminal."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import click
import msgspec

from pumice.adapters.kubernetes.api import AccessSource
from pumice.adapters.kubernetes.errors import (
    NOT_FOUND,
    ApiError,
    KubernetesError,
    NoAccessError,
    one_line,
)
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.session import MERGE, ApiSession
from pumice.adapters.runtime.clock import SystemClock
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.bus import command_body
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.resources import COMMANDS
from pumice.controllers.runtime.objects import Key, Manifest, Metadata, shown_key

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_PAGE: Final = "500"
# The reason of the answer about an object that does not exist; the answer about an unknown resource has none.
_NO_OBJECT: Final = "NotFound"
# Values of the access flags, in the context of the command.
_MASTER: Final = "pumice.vcctl.master"
_KUBECONFIG: Final = "pumice.vcctl.kubeconfig"
# Client libraries of Kubernetes log each request from this verbosity on.
_REQUESTS: Final = 6
_SHOWS_REQUESTS: Final = "pumice.vcctl.shows_requests"
_WITHOUT_EFFECT: Final = ("--vmodule", "--log-flush-frequency")


class CommandError(click.ClickException):
    """A command failed."""


class BadInputError(CommandError):
    """A file or a kubeconfig is invalid."""

    exit_code = 2


def access_options(function: F) -> F:
    """The flags of every command: the API server, and the log. `run_with_objects` reads them."""
    for flag in (
        _log_options,
        _access_option("-s", "--master", _MASTER, "Address of the API server."),
        _access_option("-k", "--kubeconfig", _KUBECONFIG, "Kubeconfig file."),
    ):
        function = flag(function)
    return function


def _access_option(short: str, name: str, key: str, text: str) -> Callable[[F], F]:
    def store(context: click.Context, parameter: click.Parameter, value: str) -> None:
        context.meta[key] = value

    return click.option(short, name, default="", callback=store, expose_value=False, help=text)


def _log_options(function: F) -> F:
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


def _log_request(method: str, path: str) -> None:
    """Logs a request to standard error, if the verbosity is high enough."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_SHOWS_REQUESTS):
        click.echo(f"{method} {path}", err=True)


def _set_verbosity(context: click.Context, parameter: click.Parameter, text: str) -> None:
    # Users write `-v 6` and `-v=6`.
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


namespace_option: Final = click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of the object."
)
all_namespaces_option: Final = click.option(
    "--all-namespaces", is_flag=True, help="Objects of all namespaces."
)
name_option: Final = click.option("-N", "--name", required=True, help="Name of the object.")


class Objects:
    """Reads and writes objects of one cluster. Every method raises CommandError."""

    def __init__(self, api: ApiSession) -> None:
        self._api = api

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest:
        path = resource.path(namespace, name)
        return await self._call("GET", path, resource, (namespace, name))

    async def list(
        self, resource: Resource, namespace: str = "", selector: str = "", fields: str = ""
    ) -> list[Manifest]:
        """All objects that a label selector and a field selector select."""
        found: list[Manifest] = []
        query = {"limit": _PAGE, "labelSelector": selector, "fieldSelector": fields}
        while True:
            given = {name: text for name, text in query.items() if text}
            _log_request("GET", resource.path(namespace))
            try:
                page = msgspec.json.decode(await self._api.page(resource.path(namespace), given))
            except KubernetesError as error:
                raise _shown(error, resource, ("", "")) from error
            found += page.get("items") or []
            query["continue"] = page.get("metadata", {}).get("continue", "")
            if not query["continue"]:
                return found

    async def create(self, resource: Resource, body: Manifest) -> Manifest:
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata.get("name", ""))
        body = {"apiVersion": resource.api_version, "kind": resource.name, **body}
        return await self._call("POST", resource.path(key[0]), resource, key, body)

    async def merge(self, resource: Resource, name: str, body: Manifest) -> Manifest:
        return await self._call("PATCH", resource.path("", name), resource, ("", name), body)

    async def delete(self, resource: Resource, namespace: str, name: str) -> None:
        await self._call("DELETE", resource.path(namespace, name), resource, (namespace, name))

    async def send_command(self, resource: Resource, key: Key, action: str) -> None:
        """Asks the controller of an object for an action."""
        target = await self.get(resource, *key)
        metadata = msgspec.convert(target["metadata"], Metadata)
        await self.create(COMMANDS, command_body(resource, metadata, action))

    async def _call(
        self,
        method: str,
        path: str,
        resource: Resource,
        key: Key,
        body: Manifest | None = None,
    ) -> Manifest:
        content = b"" if body is None else msgspec.json.encode(body)
        kind = MERGE if method == "PATCH" else "application/json"
        _log_request(method, path)
        try:
            answer = await self._api.call(method, path, content, content_type=kind)
        except KubernetesError as error:
            raise _shown(error, resource, key) from error
        found: Manifest = msgspec.json.decode(answer)
        return found


def run_with_objects(work: Callable[[Objects], Awaitable[T]]) -> T:
    """Runs a function with a connection to the cluster of the access flags."""
    flags = click.get_current_context().meta

    async def connected() -> T:
        clock = SystemClock()
        api = ApiSession(
            AccessSource(flags[_KUBECONFIG], "", flags[_MASTER]),
            TokenBucket(0, 1, clock),
            clock,
            Metrics(CONTROLLER_SERIES),
            connections=4,
            user_agent="pumice",
        )
        try:
            await api.open()
        except NoAccessError as error:
            raise BadInputError(str(error)) from error
        try:
            return await work(Objects(api))
        finally:
            await api.close()

    return asyncio.run(connected())


def _shown(error: KubernetesError, resource: Resource, key: Key) -> CommandError:
    name = f"{resource.name} {shown_key(key)}".rstrip()
    if isinstance(error, ApiError) and error.status == NOT_FOUND:
        if error.reason == _NO_OBJECT and key[1]:
            return CommandError(f"{name} does not exist")
        if resource.custom:
            return CommandError(
                f"the cluster has no {resource.full_name}; apply the definitions of deploy/crds"
            )
    return CommandError(f"{name}: {one_line(error)}")
