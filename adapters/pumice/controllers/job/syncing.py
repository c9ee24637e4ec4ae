"""Creates the objects that a Job lacks: objects of plugins, claims, a PodGroup and pods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.controllers.job.deleting import pod_deletions
from pumice.controllers.job.dependencies import Dependencies
from pumice.controllers.job.groups import group_body, group_patch
from pumice.controllers.job.lifecycle import has_timeouts
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.plugins import JobObject, job_plugins
from pumice.controllers.job.pods import pod_body, pod_name
from pumice.controllers.job.problems import (
    policies_without_effect,
    why_not_created,
    why_not_started,
)
from pumice.controllers.job.types import JOB_FORWARDING, Job, JobSpec, JobStatus, Phase, Task
from pumice.controllers.job.volumes import claim_bodies, claim_names, named_volumes
from pumice.controllers.resources import CLAIMS, CONFIG_MAPS, JOBS, POD_GROUP, PODS
from pumice.controllers.runtime.acts import Act, Create, Delete, Patch

# Keys of plugins and claims in status.controlledResources.
_PLUGIN: Final = "plugin-"
_CLAIM: Final = "volume-pvc-"
# Pods that one plan creates. The next plan follows at once. A plan with all pods of a large job would take
# many seconds to compute, and the lease must be renewed meanwhile.
MOST_CREATED: Final = 1000
_ADMITTED: Final = frozenset({"Inqueue", "Running", "Unknown", "Completed"})


@dataclass(frozen=True, slots=True)
class Sync:
    """The stages that create what a job lacks."""

    stages: Sequence[Sequence[Act]] = ()
    # Why the job must be retried; "": it need not be.
    problem: str = ""
    # Whether more pods are to be created than the stages create.
    has_more: bool = False


def sync(observed: Observed, status: JobStatus) -> Sync:
    """Creates what a job lacks. Enters the created objects into the new status."""
    not_created = why_not_created(observed)
    stages: list[Sequence[Act]] = [_events(observed, not_created or why_not_started(observed))]
    if not_created:
        # A watch event ends the wait.
        return Sync(stages)
    try:
        first = _plugin_acts(observed, status)
        lacks_claim, claims = _claim_acts(observed, status)
        first += [*claims, *_group_acts(observed)]
        pods, has_more = _pod_acts(observed) if _is_admitted(observed) else ([], False)
    except ValueError as error:
        return Sync([*stages, [observed.event("PluginError", str(error))]], str(error))
    stages += [first, () if lacks_claim else pods]
    if observed.has_new_conditions:
        stages.append(_condition_events(observed))
    return Sync(stages, has_more=has_more and not lacks_claim)


def _events(observed: Observed, why: str) -> list[Act]:
    """Why a job waits, unless its status has the reason, and policies of a new job without effect."""
    events: list[Act] = []
    state = observed.job.status.state
    if why and state.message != why:
        events.append(observed.event("JobStatusError", why))
    if not state.phase:
        texts = policies_without_effect(observed.spec)
        events += [observed.event("PolicyError", text) for text in texts]
    return events


def job_patch(observed: Observed) -> Patch | None:
    """Stores the names of generated claims in the job, and whether its queue forwards the job."""
    metadata = observed.job.metadata
    body: dict[str, object] = {}
    volumes = named_volumes(observed.job, observed.spec)
    if volumes is not None:
        body["spec"] = {"volumes": volumes}
    if observed.is_forwarded and metadata.annotation(JOB_FORWARDING) != "true":
        body["metadata"] = {"annotations": {JOB_FORWARDING: "true"}}
    if not body:
        return None
    return Patch.of(JOBS, metadata, body, version=metadata.resource_version)


def _is_admitted(observed: Observed) -> bool:
    """Pods are created after the PodGroup is admitted; a running job replaces its pods at once."""
    group = observed.group
    if group is None or group.metadata.is_terminating:
        return False
    return group.status.phase in _ADMITTED or observed.job.status.phase is Phase.RUNNING


# Plugins.


def _plugin_acts(observed: Observed, status: JobStatus) -> list[Act]:
    """Raises ValueError for an unknown plugin."""
    acts: list[Act] = []
    created = dict(status.controlled_resources or {})
    for name, plugin in job_plugins(observed.spec):
        is_new = f"{_PLUGIN}{name}" not in created
        if is_new and plugin.problem:
            text = f"plugin {name}: {plugin.problem}; it and what follows it has no effect"
            acts.append(observed.event("PluginError", text))
        for one in plugin.objects(observed.job, observed.spec):
            acts += _object_acts(observed, one, is_new=is_new)
        created[f"{_PLUGIN}{name}"] = name
    status.controlled_resources = created or None
    return acts


def _object_acts(observed: Observed, one: JobObject, *, is_new: bool) -> list[Act]:
    """Creates an object of a new plugin, or updates a ConfigMap that follows the job."""
    desired = one.body.get("data") if one.follows_job else None
    current = observed.config_maps.get(one.name)
    if desired is not None and current is not None:
        if current == desired:
            return []
        removed: dict[str, None] = dict.fromkeys(current.keys() - desired.keys())
        body = {"data": {**removed, **desired}}
        return [Patch(CONFIG_MAPS, observed.job.metadata.namespace, one.name, "", body)]
    if not is_new and desired is None:
        return []
    # ConfigMaps that Volcano created lack the label by which they are watched; it is added.
    refused = observed.event("PluginError", "Error creating objects of a plugin")
    return [
        Create(
            one.resource,
            one.body,
            refused,
            may_exist=True,
            takes_over=one.follows_job,
            complete=one.complete,
        )
    ]


def delete_plugin_objects(job: Job, spec: JobSpec, status: JobStatus) -> list[Act]:
    """Deletes the objects of plugins, and removes the plugins from the status."""
    created = status.controlled_resources or {}
    kept = {key: name for key, name in created.items() if not key.startswith(_PLUGIN)}
    if len(kept) == len(created):
        return []
    status.controlled_resources = kept or None
    try:
        plugins = [one for name, one in job_plugins(spec) if f"{_PLUGIN}{name}" in created]
    except ValueError:
        # The sync of a job with an unknown plugin creates no objects.
        return []
    return [
        Delete(one.resource, job.metadata.namespace, one.name, owner_uid=job.metadata.uid)
        for plugin in plugins
        for one in plugin.objects(job, spec)
    ]


# Claims, the PodGroup and pods.


def _claim_acts(observed: Observed, status: JobStatus) -> tuple[bool, list[Act]]:
    """Whether the job waits for a claim that it does not create, and the acts for its claims."""
    acts: list[Act] = []
    bodies = claim_bodies(observed.job, observed.spec)
    created = dict(status.controlled_resources or {})
    refused = observed.event("PVCError", "Error creating a claim")
    lacks_claim = False
    for name in claim_names(observed.job, observed.spec):
        if name not in observed.claims and name not in bodies:
            lacks_claim = True
            text = f"claim {name!r} does not exist; the job waits for it"
            acts.append(observed.event("PVCError", text))
            continue
        created[f"{_CLAIM}{name}"] = name
        if name not in observed.claims:
            acts.append(Create(CLAIMS, bodies[name], refused, may_exist=True))
    status.controlled_resources = created or None
    return lacks_claim, acts


def _group_acts(observed: Observed) -> list[Act]:
    refused = observed.event("PodGroupError", "Error creating or updating the PodGroup")
    group = observed.group
    if group is None:
        body = group_body(observed.job, observed.spec, observed.min_resources)
        return [Create(POD_GROUP, body, refused)]
    patch = group_patch(observed.spec, group, observed.min_resources)
    if patch is None or group.metadata.is_terminating:
        return []
    return [Patch.of(POD_GROUP, group.metadata, patch, on_refusal=refused)]


def _pod_acts(observed: Observed) -> tuple[list[Act], bool]:
    """Creates missing pods, and deletes marked pods and pods beyond the replicas.

    Returns the acts, and whether more pods are missing. Raises ValueError.
    """
    existing = {pod.metadata.name: pod for pod in observed.pods}
    missing: list[tuple[Task, list[int]]] = []
    desired: set[str] = set()
    dependencies: Dependencies | None = None
    for task in observed.spec.tasks or ():
        names = [pod_name(observed.job.metadata.name, task.name, n) for n in range(task.replicas)]
        desired.update(names)
        indexes = [index for index, name in enumerate(names) if name not in existing]
        if indexes:
            dependencies = dependencies or Dependencies(observed.spec, observed.pods)
            if dependencies.is_released(task):
                missing.append((task, indexes))
    acts: list[Act] = []
    # Each task has its share, because the API server may refuse all pods of another one.
    share = max(1, MOST_CREATED // max(1, len(missing)))
    for task, indexes in missing:
        acts += _pod_creations(observed, task, indexes[:share])
    surplus = [
        pod
        for name, pod in existing.items()
        if (name not in desired or pod.is_marked) and not pod.metadata.is_terminating
    ]
    has_more = any(len(indexes) > share for _, indexes in missing)
    return [*acts, *pod_deletions(observed, surplus)], has_more


def _pod_creations(observed: Observed, task: Task, indexes: Sequence[int]) -> Iterator[Create]:
    refused = observed.event("FailedCreate", "Error creating pods")
    evictions = observed.evictions if has_timeouts(observed.spec) else ()
    evicted_ms = {one.pod: one.at_ms for one in evictions}
    for index in indexes:
        body = pod_body(
            observed.job,
            observed.spec,
            task,
            index,
            is_forwarded=bool(observed.is_forwarded),
            group=observed.group.metadata.name if observed.group is not None else "",
            evicted_ms=evicted_ms.get(pod_name(observed.job.metadata.name, task.name, index), 0),
        )
        yield Create(PODS, body, refused, like=task.name)


def _condition_events(observed: Observed) -> list[Act]:
    """An event about the newest condition of the PodGroup, unless it is Scheduled."""
    conditions = observed.group.status.conditions if observed.group is not None else None
    true = [one for one in conditions or () if one.status == "True"]
    newest = max(true, key=lambda one: one.last_transition_time or "", default=None)
    if newest is None or newest.type == "Scheduled":
        return []
    metadata = observed.job.metadata
    text = (
        f"PodGroup {metadata.namespace}:{metadata.name} {newest.type.lower()},"
        f" reason: {newest.message}"
    )
    return [observed.event("PodGroupPending", text)]
