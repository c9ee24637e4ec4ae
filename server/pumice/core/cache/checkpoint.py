"""Takes checkpoints, the values that later sessions depend on, and restores a cache from one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pumice.core.cache.assumptions import Assumption, CoolDown
from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.plugin_data import Values
from pumice.core.cache.storage import VolumeReservation
from pumice.core.deltas import ClusterObject
from pumice.core.model.devices import DeviceAllocation


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A cluster between two sessions: its objects, with the assumptions applied."""

    session: int
    objects: tuple[ClusterObject, ...] = ()
    # Oldest first.
    assumptions: tuple[Assumption, ...] = ()
    cool_downs: tuple[tuple[str, CoolDown], ...] = ()
    broken: tuple[tuple[str, int], ...] = ()
    broken_scanned: bool = False
    # Volumes given to claims: key, pod and reservation.
    volumes: tuple[tuple[str, str, VolumeReservation], ...] = ()
    # Ids of jobs that have not changed since their statuses were written.
    closed_jobs: tuple[str, ...] = ()
    # By pod uid: reason, message and nominated node.
    reported_conditions: tuple[tuple[str, tuple[str, str, str]], ...] = ()
    # Nodes of this scheduler's shard that a sent status no longer claims.
    releasing_nodes: tuple[str, ...] = ()
    # Data that adapters report: plugin, name and values.
    plugin_data: tuple[tuple[str, str, Values], ...] = ()
    # The times that plugins keep, by plugin.
    plugin_times: tuple[tuple[str, int], ...] = ()
    # Devices given to claims that do not show them yet: claim, pod and devices.
    devices: tuple[tuple[str, str, DeviceAllocation], ...] = ()


def take(cache: ClusterCache, session: int) -> Checkpoint:
    """Takes a checkpoint. Objects are shared, not copied."""
    return Checkpoint(
        session,
        tuple(cache.objects()),
        tuple(replace(assumed) for assumed in cache.assumptions.all_open()),
        tuple((job_id, replace(state)) for job_id, state in sorted(cache.cool_downs.items())),
        tuple(sorted(cache.broken.since.items())),
        cache.broken.scanned,
        cache.storage.reservations.snapshot(),
        tuple(job.id for job in cache.jobs.values() if job.closed_version == job.version),
        tuple(
            (task.uid, task.reported_condition)
            for task in cache.tasks.values()
            if task.reported_condition is not None
        ),
        tuple(sorted(cache.shard_claims.releasing)),
        tuple(cache.plugin_data.all()),
        tuple(sorted(cache.plugin_times.items())),
        cache.devices.reservations.snapshot(),
    )


def restore(cache: ClusterCache, checkpoint: Checkpoint) -> None:
    """Fills an empty cache."""
    # Assumptions are opened before the pods are added, so that the pods get the assumed status. They
    # must not be expired yet: an update of the pod would close an expired one.
    opened = [replace(assumed, expired=False) for assumed in checkpoint.assumptions]
    for assumed in opened:
        cache.assumptions.open(assumed)
    for item in checkpoint.objects:
        cache.upsert(item)
    for assumed, taken in zip(opened, checkpoint.assumptions, strict=True):
        assumed.expired = taken.expired
    for job_id, state in checkpoint.cool_downs:
        cache.cool_downs[job_id] = replace(state)
    cache.broken.since, cache.broken.scanned = dict(checkpoint.broken), checkpoint.broken_scanned
    # Reservations come after the objects, because an object that is added may end one.
    cache.storage.reservations.restore(checkpoint.volumes)
    cache.devices.reservations.restore(checkpoint.devices)
    cache.shard_claims.releasing.update(checkpoint.releasing_nodes)
    for plugin, name, values in checkpoint.plugin_data:
        cache.put_data(plugin, name, values)
    cache.plugin_times.update(checkpoint.plugin_times)
    cache.settle()
    for uid, condition in checkpoint.reported_conditions:
        if uid in cache.tasks:
            cache.tasks[uid].reported_condition = condition
    for job_id in checkpoint.closed_jobs:
        job = cache.jobs.get(job_id)
        if job is not None:
            job.closed_version = job.version
