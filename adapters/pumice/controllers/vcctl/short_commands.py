"""The commands `vsub`, `vjobs`, `vqueues`, `vcancel`, `vsuspend` and `vresume`.

They equal the commands `pumice job …` and `pumice queue …`, with the flags of Volcano's programs of
these names: `-n` is the name and `-N` the namespace, the opposite of `vcctl`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from pumice.controllers.vcctl import job_commands, queue_commands

_SWAPPED: Final = {"-n": "-N", "-N": "-n"}
# Variables that only vsub reads.
_VARIABLES: Final = {
    "scheduler": "VOLCANO_SCHEDULER_NAME",
    "image": "VOLCANO_DEFAULT_IMAGE",
    "namespace": "VOLCANO_DEFAULT_JOB_NAMESPACE",
}


def _flags(
    command: click.Command,
    variables: Mapping[str, str] | None = None,
    *,
    without: Sequence[str] = (),
) -> list[click.Parameter]:
    """The flags of a command with `-n` and `-N` swapped, and variables for their defaults."""
    found = []
    for given in command.params:
        if given.name in without:
            continue
        flag = copy.copy(given)
        flag.opts = [_SWAPPED.get(option, option) for option in given.opts]
        flag.envvar = (variables or {}).get(given.name or "")
        if isinstance(flag, click.Option) and flag.envvar:
            flag.show_envvar = True
        found.append(flag)
    return found


def _view_or_list(name: str, namespace: str, **values: Any) -> None:
    context = click.get_current_context()
    if name:
        context.invoke(job_commands.view, name=name, namespace=namespace)
    else:
        context.invoke(job_commands.list_jobs, queue="", namespace=namespace, **values)


def _get_or_list(name: str) -> None:
    context = click.get_current_context()
    if name:
        context.invoke(queue_commands.get, name=name)
    else:
        context.invoke(queue_commands.list_queues)


def _cancel(namespace: str, name: str) -> None:
    job_commands.delete_job((namespace, name))
    click.echo(f"cancel job {name} successfully")


def _name(what: str) -> click.Option:
    return click.Option(["-n", "--name"], default="", help=what)


vsub = click.Command(
    "vsub",
    callback=job_commands.run.callback,
    params=_flags(job_commands.run, _VARIABLES),
    help="Creates a Job from flags, or from a file.",
)
vjobs = click.Command(
    "vjobs",
    callback=_view_or_list,
    params=[*_flags(job_commands.list_jobs, without=["queue"]), _name("Job to show.")],
    help="Lists Jobs, or shows one.",
)
vqueues = click.Command(
    "vqueues",
    callback=_get_or_list,
    params=[*_flags(queue_commands.list_queues), _name("Queue to show.")],
    help="Lists queues, or shows one.",
)
vcancel = click.Command(
    "vcancel",
    callback=_cancel,
    params=_flags(job_commands.delete),
    help="Deletes a Job and its pods.",
)
vsuspend = click.Command(
    "vsuspend",
    callback=job_commands.suspend.callback,
    params=_flags(job_commands.suspend),
    help="Suspends a Job.",
)
vresume = click.Command(
    "vresume",
    callback=job_commands.resume.callback,
    params=_flags(job_commands.resume),
    help="Resumes a suspended Job.",
)
