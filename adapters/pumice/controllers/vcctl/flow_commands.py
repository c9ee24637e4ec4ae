"""The commands `pumice jobflow …` and `pumice jobtemplate …`, which differ in kind and columns."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import click
import yaml

from pumice.adapters.kubernetes.resources import Resource
from pumice.controllers.resources import JOB_FLOWS, JOB_TEMPLATES
from pumice.controllers.runtime.objects import Manifest, shown_key
from pumice.controllers.vcctl.access import (
    CommandError,
    Objects,
    access_options,
    all_namespaces_option,
    name_option,
    namespace_option,
    run_with_objects,
)
from pumice.controllers.vcctl.files import objects_of
from pumice.controllers.vcctl.tables import NONE_FOUND, age, print_objects

Row = Callable[[Manifest], Sequence[object]]
_SPACE: Final = 4
_file_option = click.option("-f", "--file", "path", default="", help="YAML file with the objects.")


def _group(resource: Resource, header: Sequence[str], row: Row, text: str) -> click.Group:
    group = click.Group(
        resource.name.lower(),
        help=f"Creates, lists, shows and deletes {resource.name}s (flow.volcano.sh). {text}",
        short_help=f"{resource.name}s of a cluster.",
    )
    for command in (
        _create(resource),
        _delete(resource),
        _list(resource, header, row),
        _get(resource, header, row),
        _describe(resource),
    ):
        group.add_command(command)
    return group


def _create(resource: Resource) -> click.Command:
    @click.command("create", help=f"Creates the {resource.name}s of a file.")
    @access_options
    @click.option("-f", "--file", "path", required=True, help="YAML file with the objects.")
    def create(path: str) -> None:
        async def make(objects: Objects, body: Manifest) -> None:
            await objects.create(resource, body)

        _each(_read(path, resource), make, ("Created", "create"))

    return create


def _delete(resource: Resource) -> click.Command:
    @click.command("delete", help=f"Deletes one {resource.name}, or those of a file.")
    @access_options
    @namespace_option
    @click.option("-N", "--name", default="", help="Name of the object.")
    @_file_option
    def delete(namespace: str, name: str, path: str) -> None:
        if bool(name) == bool(path):
            raise click.UsageError("give either --name or --file")
        bodies = _read(path, resource) if path else [_named(resource, namespace, name)]

        async def remove(objects: Objects, body: Manifest) -> None:
            await objects.delete(resource, *_key(body))

        _each(bodies, remove, ("Deleted", "delete"))

    return delete


def _each(
    bodies: Sequence[Manifest],
    act: Callable[[Objects, Manifest], Awaitable[None]],
    verbs: tuple[str, str],
) -> None:
    """Acts on each object. Continues after a failure, and fails at the end."""

    async def work(objects: Objects) -> int:
        failures = 0
        for body in bodies:
            try:
                await act(objects, body)
            except CommandError as error:
                failures += 1
                click.echo(f"Failed to {verbs[1]} {body['kind']}: {error.message}", err=True)
            else:
                click.echo(f"{verbs[0]} {body['kind']}: {shown_key(_key(body))}")
        return failures

    if failures := run_with_objects(work):
        raise CommandError(f"{failures} of {len(bodies)} failed")


def _list(resource: Resource, header: Sequence[str], row: Row) -> click.Command:
    @click.command("list", help=f"Lists {resource.name}s.")
    @access_options
    @namespace_option
    @all_namespaces_option
    def list_all(namespace: str, all_namespaces: bool) -> None:
        where = "" if all_namespaces else namespace
        found = run_with_objects(lambda objects: objects.list(resource, where))
        print_objects(header, found, row, _SPACE, _SPACE)

    return list_all


def _get(resource: Resource, header: Sequence[str], row: Row) -> click.Command:
    @click.command("get", help=f"Shows one {resource.name} in one line.")
    @access_options
    @namespace_option
    @name_option
    def get(namespace: str, name: str) -> None:
        found = run_with_objects(lambda objects: objects.get(resource, namespace, name))
        print_objects(header, [found], row, _SPACE, _SPACE)

    return get


def _describe(resource: Resource) -> click.Command:
    @click.command("describe", help=f"Shows one {resource.name}, or all of a namespace, in full.")
    @access_options
    @namespace_option
    @click.option("-N", "--name", default="", help="Name of the object; default: all objects.")
    @click.option(
        "-o",
        "--format",
        "form",
        type=click.Choice(["yaml", "json"]),
        default="yaml",
        show_default=True,
        help="Format of the output.",
    )
    def describe(namespace: str, name: str, form: str) -> None:
        async def work(objects: Objects) -> list[Manifest]:
            if name:
                return [await objects.get(resource, namespace, name)]
            return await objects.list(resource, namespace)

        found = run_with_objects(work)
        click.echo("\n\n".join(_text(resource, one, form) for one in found) or NONE_FOUND)

    return describe


def _text(resource: Resource, found: Manifest, form: str) -> str:
    metadata = {name: one for name, one in found["metadata"].items() if name != "managedFields"}
    body = {
        **found,
        "apiVersion": resource.api_version,
        "kind": resource.name,
        "metadata": metadata,
    }
    if form == "json":
        return json.dumps(body, indent=2, sort_keys=True)
    return str(yaml.safe_dump(body)).rstrip("\n")


def _read(path: str, resource: Resource) -> list[Manifest]:
    found = objects_of(path, resource)
    for body in found:
        body["metadata"] = {"namespace": "default", **body["metadata"]}
    return found


def _named(resource: Resource, namespace: str, name: str) -> Manifest:
    return {"kind": resource.name, "metadata": {"namespace": namespace, "name": name}}


def _key(body: Manifest) -> tuple[str, str]:
    metadata = body["metadata"]
    return metadata["namespace"], metadata.get("name", "")


def _template_row(found: Manifest) -> Sequence[object]:
    metadata = found["metadata"]
    return metadata["name"], metadata["namespace"]


def _flow_row(found: Manifest) -> Sequence[object]:
    metadata, status = found["metadata"], found.get("status") or {}
    phase = (status.get("state") or {}).get("phase", "")
    return metadata["name"], metadata["namespace"], phase, age(metadata.get("creationTimestamp"))


jobtemplate_group: Final = _group(
    JOB_TEMPLATES, ("Name", "Namespace"), _template_row, "JobFlows make Jobs from them."
)
jobflow_group: Final = _group(
    JOB_FLOWS,
    ("Name", "Namespace", "Phase", "Age"),
    _flow_row,
    "A JobFlow runs Jobs from templates in an order.",
)
