"""The commands `pumice job …`."""

import shlex
from typing import Any

import click

from pumice.controllers.resources import EVENTS, JOBS
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.vcctl.access import (
    BadInputError,
    Objects,
    access_options,
    all_namespaces_option,
    name_option,
    namespace_option,
    run_with_objects,
)
from pumice.controllers.vcctl.files import one_of
from pumice.controllers.vcctl.job_view import described, shown_events
from pumice.controllers.vcctl.tables import NONE_FOUND, local_time, print_table, widths_of
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import nanos

_AMOUNTS = "cpu=1000m,memory=100Mi"
_COLUMNS = {
    "Creation": 15, "Phase": 12, "JobType": 12, "Replicas": 12, "Min": 6, "Pending": 10,
    "Running": 10, "Succeeded": 12, "Failed": 10, "Unknown": 12, "RetryCount": 10,
}  # fmt: skip


@click.group("job", short_help="Jobs of a cluster.")
def job_group() -> None:
    """Runs, lists, shows, suspends, resumes and deletes Jobs (batch.volcano.sh)."""


@job_group.command("run")
@access_options
@namespace_option
@click.option("-N", "--name", default="", help="Name of the job.")
@click.option("-i", "--image", default="busybox", show_default=True, help="Image of the pods.")
@click.option(
    "-m", "--min", "min_available", type=click.IntRange(0), default=1, show_default=True,
    help="Minimum number of pods that start together.",
)  # fmt: skip
@click.option(
    "-r", "--replicas", type=click.IntRange(0), default=1, show_default=True, help="Number of pods."
)
@click.option(
    "-R", "--requests", default=_AMOUNTS, show_default=True, help="Resource requests of a pod."
)
@click.option(
    "-L", "--limits", default=_AMOUNTS, show_default=True, help="Resource limits of a pod."
)
@click.option(
    "-S", "--scheduler", default="volcano", show_default=True, help="Scheduler of the pods."
)
@click.option(
    "-c", "--command", default="", help="Command of the pods, with the quotes of a shell."
)
@click.option("-f", "--filename", default="", help="YAML file with a Job; other flags are ignored.")
def run(namespace: str, filename: str, **values: Any) -> None:
    """Creates a Job from flags, or from a file."""
    if filename:
        if values["command"]:
            raise click.UsageError("--command has no effect with --filename; give one of them")
        body = _from_file(filename, namespace)
    elif values["name"]:
        body = job_body(namespace, **values)
    else:
        raise click.UsageError("give the name of the job with --name, or a file with --filename")
    made = run_with_objects(lambda objects: objects.create(JOBS, body))
    click.echo(f"run job {made['metadata']['name']} successfully")


def _from_file(filename: str, namespace: str) -> Manifest:
    if not filename.endswith((".yaml", ".yml")):
        raise click.UsageError(f"--filename {filename}: allowed: files that end with .yaml or .yml")
    body = one_of(filename, JOBS)
    given = body["metadata"].get("namespace", namespace)
    if given != namespace:
        raise BadInputError(f"{filename}: metadata.namespace is {given}; give --namespace {given}")
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


def job_body(
    namespace: str,
    name: str,
    image: str,
    min_available: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    command: str = "",
) -> Manifest:
    container: Manifest = {
        "image": image,
        "name": name,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": amounts_of("--limits", limits),
            "requests": amounts_of("--requests", requests),
        },
    }
    if command:
        container["command"] = words_of("--command", command)
    template = {
        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "minAvailable": min_available,
            "schedulerName": scheduler,
            "tasks": [{"replicas": replicas, "template": template}],
        },
    }


def words_of(flag: str, text: str) -> list[str]:
    """The words of a command line. Raises click.UsageError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"{flag}: {text!r} cannot be split into words: {error}") from None


def amounts_of(flag: str, text: str) -> dict[str, str]:
    """Amounts from `cpu=1,memory=1Gi`. Raises click.UsageError."""
    amounts = {}
    for term in filter(None, text.split(",")):
        name, equals, amount = term.partition("=")
        try:
            nanos(amount)
        except FieldError:
            equals = ""
        if not name or not equals:
            raise click.UsageError(f"{flag}: {term!r} given; allowed: RESOURCE=AMOUNT, as cpu=500m")
        amounts[name] = amount
    return amounts


@job_group.command("list")
@access_options
@namespace_option
@all_namespaces_option
@click.option("-q", "--queue", default="", help="Jobs of this queue only.")
@click.option("-S", "--scheduler", default="", help="Jobs of this scheduler only.")
@click.option("--selector", default="", help="Jobs whose name contains this text.")
def list_jobs(namespace: str, all_namespaces: bool, **filters: str) -> None:
    """Lists Jobs with their phases and pods."""
    where = "" if all_namespaces else namespace
    found = run_with_objects(lambda objects: objects.list(JOBS, where))
    jobs = [job for job in found if _is_selected(job, **filters)]
    if not jobs:
        click.echo(NONE_FOUND)
        return
    rows = [_row(job) for job in jobs]
    header, widths = ["Name", *_COLUMNS], list(_COLUMNS.values())
    leading = ["Name"]
    if all_namespaces:
        rows = [[job["metadata"]["namespace"], *row] for job, row in zip(jobs, rows, strict=True)]
        header, leading = ["Namespace", *header], ["Namespace", "Name"]
    leads = widths_of(leading, [row[: len(leading)] for row in rows], 3, 3)
    print_table(header, rows, [*leads, *widths])


def _is_selected(job: Manifest, queue: str, scheduler: str, selector: str) -> bool:
    spec = job.get("spec", {})
    return (
        (not queue or spec.get("queue") == queue)
        and (not scheduler or spec.get("schedulerName") == scheduler)
        and selector in job["metadata"]["name"]
    )


def _row(job: Manifest) -> list[object]:
    metadata, spec, status = job["metadata"], job.get("spec", {}), job.get("status", {})
    counters = (
        "minAvailable",
        "pending",
        "running",
        "succeeded",
        "failed",
        "unknown",
        "retryCount",
    )
    return [
        metadata["name"],
        local_time(metadata.get("creationTimestamp"))[:10],
        (status.get("state") or {}).get("phase", ""),
        (metadata.get("labels") or {}).get("volcano.sh/job-type") or "Batch",
        sum(task.get("replicas", 0) for task in spec.get("tasks") or ()),
        *(status.get(name, 0) for name in counters),
    ]


@job_group.command("view")
@access_options
@namespace_option
@name_option
def view(namespace: str, name: str) -> None:
    """Shows a Job with its tasks, its status and its events."""

    async def work(objects: Objects) -> tuple[Manifest, list[Manifest]]:
        job = await objects.get(JOBS, namespace, name)
        fields = f"involvedObject.kind={JOBS.name},involvedObject.name={name}"
        return job, await objects.list(EVENTS, namespace, fields=fields)

    job, events = run_with_objects(work)
    for line in (*described(job), *shown_events(events)):
        click.echo(line)


@job_group.command("suspend")
@access_options
@namespace_option
@name_option
def suspend(namespace: str, name: str) -> None:
    """Suspends a Job: its pods are deleted, and it can be resumed."""
    run_with_objects(lambda objects: objects.send_command(JOBS, (namespace, name), "AbortJob"))


@job_group.command("resume")
@access_options
@namespace_option
@name_option
def resume(namespace: str, name: str) -> None:
    """Resumes a suspended Job."""
    run_with_objects(lambda objects: objects.send_command(JOBS, (namespace, name), "ResumeJob"))


@job_group.command("delete")
@access_options
@namespace_option
@name_option
def delete(namespace: str, name: str) -> None:
    """Deletes a Job and its pods."""
    delete_job((namespace, name))
    click.echo(f"delete job {name} successfully")


def delete_job(key: tuple[str, str]) -> None:
    run_with_objects(lambda objects: objects.delete(JOBS, *key))
