"""The commands `pumice pod …` and `pumice podgroup …`."""

from typing import Final

import click

from pumice.controllers.resources import POD_GROUP, PODS
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.vcctl.access import (
    CommandError,
    access_options,
    all_namespaces_option,
    name_option,
    namespace_option,
    run_with_objects,
)
from pumice.controllers.vcctl.pod_status import ready_of, restarts_of, status_of
from pumice.controllers.vcctl.tables import age, print_objects

_JOB_NAME: Final = "volcano.sh/job-name"
_QUEUE_LABEL: Final = "volcano.sh/queue-name"
_QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
_POD_HEADER: Final = ("Name", "Ready", "Status", "Restart", "Age")
_GROUP_HEADER: Final = (
    "Name", "Queue", "Phase", "MinMember", "Running", "Succeeded", "Failed", "Age",
)  # fmt: skip


@click.group("pod", short_help="Pods of jobs and queues.")
def pod_group() -> None:
    """Lists the pods of Jobs and queues."""


@pod_group.command("list")
@access_options
@namespace_option
@all_namespaces_option
@click.option("-j", "--job", default="", help="Pods of this job only.")
@click.option("-q", "--queue", default="", help="Pods of this queue, of jobs and others.")
def list_pods(namespace: str, all_namespaces: bool, job: str, queue: str) -> None:
    """Lists pods of Jobs, or all pods of a queue."""
    selector = f"{_JOB_NAME}={job}" if job else "" if queue else _JOB_NAME
    where = "" if all_namespaces else namespace
    pods = run_with_objects(lambda objects: objects.list(PODS, where, selector))
    if queue:
        own = [pod for pod in pods if _is_in(pod, queue)]
        if job and len(own) < len(pods):
            raise CommandError(f"job {job} is not in queue {queue}")
        pods = own
    pods.sort(key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"]))
    print_objects(_POD_HEADER, pods, _pod_row, 8, 2, has_namespaces=all_namespaces)


def _is_in(pod: Manifest, queue: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    annotations = pod["metadata"].get("annotations") or {}
    # A name that is too long for a label is in the annotation of the same key.
    return queue in (
        labels.get(_QUEUE_LABEL),
        annotations.get(_QUEUE_LABEL),
        annotations.get(_QUEUE_ANNOTATION),
    )


def _pod_row(pod: Manifest) -> list[object]:
    metadata = pod["metadata"]
    created = age(metadata.get("creationTimestamp"))
    return [metadata["name"], ready_of(pod), status_of(pod), restarts_of(pod), created]


@click.group("podgroup", short_help="PodGroups of a cluster.")
def podgroup_group() -> None:
    """Lists and deletes PodGroups (scheduling.volcano.sh)."""


@podgroup_group.command("list")
@access_options
@namespace_option
@all_namespaces_option
@click.option("-q", "--queue", default="", help="PodGroups of this queue only.")
def list_groups(namespace: str, all_namespaces: bool, queue: str) -> None:
    """Lists PodGroups with their phases and pods."""
    where = "" if all_namespaces else namespace
    found = run_with_objects(lambda objects: objects.list(POD_GROUP, where))
    groups = [one for one in found if not queue or one["spec"].get("queue") == queue]
    print_objects(_GROUP_HEADER, groups, _group_row, 3, 3, has_namespaces=all_namespaces)


@podgroup_group.command("get")
@access_options
@namespace_option
@name_option
def get_group(namespace: str, name: str) -> None:
    """Shows one PodGroup in one line, and its conditions."""
    group = run_with_objects(lambda objects: objects.get(POD_GROUP, namespace, name))
    print_objects(_GROUP_HEADER, [group], _group_row, 3, 3)
    for one in (group.get("status") or {}).get("conditions") or ():
        click.echo(f"{one.get('type')}={one.get('status')}: {one.get('message', '')}")


@podgroup_group.command("delete")
@access_options
@namespace_option
@name_option
def delete_group(namespace: str, name: str) -> None:
    """Deletes a PodGroup; its pods stay."""
    run_with_objects(lambda objects: objects.delete(POD_GROUP, namespace, name))
    click.echo(f"delete podgroup {name} successfully")


def _group_row(group: Manifest) -> list[object]:
    metadata, spec, status = group["metadata"], group["spec"], group.get("status") or {}
    return [
        metadata["name"],
        spec.get("queue", ""),
        status.get("phase", ""),
        spec.get("minMember", 0),
        *(status.get(name, 0) for name in ("running", "succeeded", "failed")),
        age(metadata.get("creationTimestamp")),
    ]
