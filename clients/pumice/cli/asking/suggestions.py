"""Names that a shell offers while a command is typed; a core that is away offers none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import click

from pumice.client import Client, ClientError, ClientSettings, SettingsError

# Who types does not wait.
_SECONDS = 1.0
_MOST = 200
_REACHING = ("address", "cluster", "token_file", "tls_ca", "tls_cert", "tls_key", "tls_server_name")
Suggest = Callable[[click.Context, click.Parameter, str], list[str]]


def job_names(client: Client) -> Iterable[str]:
    return (f"{job.namespace}/{job.name}" for job in client.jobs())


def namespaces(client: Client) -> Iterable[str]:
    return {job.namespace for job in client.jobs()}


def queue_names(client: Client) -> Iterable[str]:
    return (queue.share.name for queue in client.queues())


def suggest(names: Callable[[Client], Iterable[str]]) -> Suggest:
    """For the ``shell_complete`` of an argument or option of a command that reaches a core."""

    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        given = {name: context.params.get(name) for name in _REACHING}
        with suppress(ClientError, SettingsError):
            settings = ClientSettings.load(timeout_seconds=_SECONDS, attempts=1, **given)
            with Client(settings) as client:
                return sorted(name for name in names(client) if name.startswith(begun))[:_MOST]
        return []

    return complete
