"""Shell completion of the names of jobs, namespaces and queues of a core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import click

from pumice.client import Client, ClientError, ClientSettings

# The shell blocks during completion.
_TIMEOUT_SECONDS = 1.0
_MOST = 200
Suggest = Callable[[click.Context, click.Parameter, str], list[str]]


def job_names(client: Client) -> Iterable[str]:
    return (job.full_name for job in client.list_jobs())


def namespaces(client: Client) -> Iterable[str]:
    return {job.namespace for job in client.list_jobs()}


def queue_names(client: Client) -> Iterable[str]:
    return (queue.name for queue in client.list_queues())


def suggest(names: Callable[[Client], Iterable[str]]) -> Suggest:
    """A function for ``shell_complete`` of a command with ``core_options``; empty without a core."""

    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        given = context.params
        with suppress(ClientError):
            settings = ClientSettings.load(
                address=given.get("address"),
                cluster=given.get("cluster"),
                token_file=given.get("token_file"),
                tls_ca=given.get("tls_ca"),
                tls_cert=given.get("tls_cert"),
                tls_key=given.get("tls_key"),
                tls_server_name=given.get("tls_server_name"),
                timeout_seconds=_TIMEOUT_SECONDS,
                retry_seconds=0,
            )
            with Client(settings) as client:
                return sorted(name for name in names(client) if name.startswith(typed))[:_MOST]
        return []

    return complete
