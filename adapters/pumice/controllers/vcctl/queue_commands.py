"""The commands `pumice queue …`."""

from collections.abc import Iterable
from typing import Final

import click

from pumice.controllers.resources import POD_GROUP, QUEUE
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.vcctl.access import Objects, access_options, run_with_objects
from pumice.controllers.vcctl.tables import NONE_FOUND, print_table, widths_of

_ACTIONS: Final = {"open": "OpenQueue", "close": "CloseQueue"}
# Columns of the phases of PodGroups.
_PHASES: Final = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
_HEADER: Final = ("Name", "Weight", "State", "Parent", *_PHASES)
_NAME_WIDTH: Final = 25
_WIDTH: Final = 8
_WEIGHTS: Final = click.IntRange(1, 65535)
_name_option: Final = click.option("-n", "--name", required=True, help="Name of the queue.")


@click.group("queue", short_help="Queues of a cluster.")
def queue_group() -> None:
    """Creates, lists, opens, closes, changes and deletes Queues (scheduling.volcano.sh)."""


@queue_group.command("create")
@access_options
@click.option("-n", "--name", default="test", show_default=True, help="Name of the queue.")
@click.option(
    "-w", "--weight", type=_WEIGHTS, default=1, show_default=True, help="Weight of the queue."
)
@click.option(
    "-S",
    "--state",
    type=click.Choice(["Open", "Closed"]),
    default="Open",
    show_default=True,
    help="State of the queue; a closed one takes no jobs.",
)
def create(name: str, weight: int, state: str) -> None:
    """Creates a queue."""

    async def work(objects: Objects) -> None:
        await objects.create(QUEUE, {"metadata": {"name": name}, "spec": {"weight": weight}})
        if state == "Closed":
            # The status of a new object is not kept, so the controller is asked.
            await objects.send_command(QUEUE, ("", name), _ACTIONS["close"])

    run_with_objects(work)


@queue_group.command("list")
@access_options
def list_queues() -> None:
    """Lists queues with the phases of their PodGroups."""

    async def work(objects: Objects) -> tuple[list[Manifest], list[Manifest]]:
        queues = await objects.list(QUEUE)
        return queues, await objects.list(POD_GROUP) if queues else []

    queues, groups = run_with_objects(work)
    if queues:
        _print_queues(queues, groups)
    else:
        click.echo(NONE_FOUND)


@queue_group.command("get")
@access_options
@_name_option
def get(name: str) -> None:
    """Shows one queue with the phases of its PodGroups."""

    async def work(objects: Objects) -> tuple[Manifest, list[Manifest]]:
        return await objects.get(QUEUE, "", name), await objects.list(POD_GROUP)

    queue, groups = run_with_objects(work)
    _print_queues([queue], groups)


@queue_group.command("operate")
@access_options
@_name_option
@click.option(
    "-a",
    "--action",
    required=True,
    type=click.Choice([*_ACTIONS, "update"]),
    help="Open or close the queue, or update its weight.",
)
@click.option("-w", "--weight", type=_WEIGHTS, default=None, help="New weight, for update.")
def operate(name: str, action: str, weight: int | None) -> None:
    """Opens or closes a queue, or changes its weight.

    A closed queue takes no new jobs; its present jobs continue. Queues below it are closed too, and
    opened again with it.
    """
    if action == "update" and weight is None:
        raise click.UsageError("--weight is required for --action update")
    if action != "update" and weight is not None:
        click.echo(f"pumice: --weight has no effect with --action {action}", err=True)

    async def work(objects: Objects) -> None:
        if action == "update":
            await objects.merge(QUEUE, name, {"spec": {"weight": weight}})
        else:
            await objects.send_command(QUEUE, ("", name), _ACTIONS[action])

    run_with_objects(work)


@queue_group.command("delete")
@access_options
@_name_option
def delete(name: str) -> None:
    """Deletes a queue."""
    run_with_objects(lambda objects: objects.delete(QUEUE, "", name))


def _print_queues(queues: Iterable[Manifest], groups: Iterable[Manifest]) -> None:
    counts: dict[tuple[str, str], int] = {}
    for group in groups:
        key = (
            group["spec"].get("queue", ""),
            (group.get("status") or {}).get("phase") or "Pending",
        )
        counts[key] = counts.get(key, 0) + 1
    rows = [_row(queue, counts) for queue in queues]
    # Columns are as wide as those of vcctl, or wider where a value needs it.
    minimum = [_NAME_WIDTH, *[_WIDTH] * (len(_HEADER) - 1)]
    wide = widths_of(_HEADER, rows, 1, 1)
    widths = [
        width if width >= needed or index == len(minimum) - 1 else needed
        for index, (width, needed) in enumerate(zip(minimum, wide, strict=True))
    ]
    print_table(_HEADER, rows, widths)


def _row(queue: Manifest, counts: dict[tuple[str, str], int]) -> list[object]:
    name, spec = queue["metadata"]["name"], queue.get("spec", {})
    return [
        name,
        spec.get("weight", 0),
        (queue.get("status") or {}).get("state", ""),
        spec.get("parent", ""),
        *(counts.get((name, phase), 0) for phase in _PHASES),
    ]
