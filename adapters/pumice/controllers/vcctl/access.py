"""Connection of a command to an API server: flags, calls, and errors for the terminal."""

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
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.runtime.objects import Manifest, shown_key
from pumice.controllers.vcctl.verbosity import log_options, log_request

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_PAGE: Final = "500"
# The reason in the answer for an object that does not exist; an unknown resource has none.
_NO_OBJECT: Final = "NotFound"


class CommandError(click.ClickException):
    """A command that could not do its work."""


class BadInputError(CommandError):
    """A file or an access to a cluster that cannot be used."""

    exit_code = 2


def access_options(function: F) -> F:
    """The flags of every command: which cluster it is for, and what it writes to its log."""
    for flag in (
        log_options,
        click.option("-s", "--master", default="", help="Address of the API server."),
        click.option("-k", "--kubeconfig", default="", help="Kubeconfig file."),
    ):
        function = flag(function)
    return function


def namespace_option(function: F) -> F:
    return click.option(
        "-n", "--namespace", default="default", show_default=True, help="Namespace of the object."
    )(function)


def all_namespaces_option(function: F) -> F:
    return click.option("--all-namespaces", is_flag=True, help="Objects of all namespaces.")(
        function
    )


def name_option(function: F) -> F:
    return click.option("-N", "--name", required=True, help="Name of the object.")(function)


class Objects:
    """Calls about objects of one cluster. Every problem is a CommandError."""

    def __init__(self, api: ApiSession) -> None:
        self._api = api

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest:
        path = resource.path(namespace, name)
        return await self._call("GET", path, resource, (namespace, name))

    async def list(
        self, resource: Resource, namespace: str = "", selector: str = "", fields: str = ""
    ) -> list[Manifest]:
        """All objects that a label selector and a field selector choose."""
        found: list[Manifest] = []
        query = {"limit": _PAGE, "labelSelector": selector, "fieldSelector": fields}
        while True:
            given = {name: text for name, text in query.items() if text}
            log_request("GET", resource.path(namespace))
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

    async def _call(
        self,
        method: str,
        path: str,
        resource: Resource,
        key: tuple[str, str],
        body: Manifest | None = None,
    ) -> Manifest:
        content = b"" if body is None else msgspec.json.encode(body)
        kind = MERGE if method == "PATCH" else "application/json"
        log_request(method, path)
        try:
            answer = await self._api.call(method, path, content, content_type=kind)
        except KubernetesError as error:
            raise _shown(error, resource, key) from error
        found: Manifest = msgspec.json.decode(answer)
        return found


def run_with(
    kubeconfig: str, master: str, work: Callable[[Objects], Awaitable[T]], context: str = ""
) -> T:
    """Does the work with a session of its own."""

    async def connected() -> T:
        clock = SystemClock()
        api = ApiSession(
            AccessSource(kubeconfig, context, master),
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


def _shown(error: KubernetesError, resource: Resource, key: tuple[str, str]) -> CommandError:
    name = f"{resource.name} {shown_key(key)}".rstrip()
    if isinstance(error, ApiError) and error.status == NOT_FOUND:
        if error.reason == _NO_OBJECT and key[1]:
            return CommandError(f"{name} does not exist")
        if resource.custom:
            return CommandError(
                f"the cluster has no {resource.full_name}; apply the definitions of deploy/crds"
            )
    return CommandError(f"{name}: {one_line(error)}")
