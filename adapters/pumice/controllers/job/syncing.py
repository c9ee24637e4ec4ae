"""Makes what a job lacks: objects of plugins, claims, a PodGroup and pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pumice.controllers.job.dependencies import Dependencies
from pumice.controllers.job.groups import group_body, group_patch
from pumice.controllers.job.idle_policies import idle_policies
from pumice.controllers.job.lifecycle import has_timeouts
from pumice.controllers.job.plugins import job_plugins
from pumice.controllers.job.pods import pod_body, pod_name
from pumice.controllers.job.types import JOB_FORWARDING, Job, JobSpec, JobStatus, Phase
from pumice.controllers.job.volumes import claim_bodies, claim_names, named_volumes
from pumice.controllers.job.waiting import why_held, why_waiting
from pumice.controllers.resources import CLAIMS, CONFIG_MAPS, JOBS, POD_GROUP, PODS
from pumice.controllers.runtime.acts import Act, Create, Delete, Emit, Patch, Reference

if TYPE_CHECKING:
    from pumice.controllers.job.reconcile import Seen

_ADMITTED: Final = frozenset({"Inqueue", "Running", "Unknown", "Completed"})


@dataclass(slots=True)
class Work:
    """Stages of acts, and why the job must be tried again."""

    stages: list[tuple[Act, ...]] = field(default_factory=list)
    problem: str = ""


def sync(seen: "Seen", status: JobStatus) -> Work:
    """What a job lacks. Marks what is made in the new status."""
    work = Work()
    wait = why_waiting(seen)
    told = wait or why_held(seen)
    # A watch tells when the wait is over. What the status says already was told.
    if told and seen.job.status.state.message != told:
        work.stages.append((Emit(seen.about, "JobStatusError", told, warning=True),))
    if not seen.job.status.state.phase:
        notes = (Emit(seen.about, "PolicyError", t, warning=True) for t in idle_policies(seen.spec))
        work.stages += [(note,) for note in notes]
    if wait:
        return work
    try:
        first = _plugin_acts(seen, status)
        missing, claims = _claim_acts(seen, status)
        first += claims
        first += _group_acts(seen)
        pods = _pod_acts(seen) if _is_admitted(seen) else []
    except ValueError as error:
        about = Emit(seen.about, "PluginError", f"{error}", warning=True)
        work.stages.append((about,))
        work.problem = str(error)
        return work
    if first:
        work.stages.append(tuple(first))
    if pods and not missing:
        work.stages.append(tuple(pods))
    if seen.has_new_conditions:
        work.stages += _condition_event(seen)
    return work


def job_patch(seen: "Seen") -> Patch | None:
    """Writes names of generated claims into the job, and whether its queue forwards it."""
    metadata = seen.job.metadata
    body: dict[str, object] = {}
    volumes = named_volumes(seen.job, seen.spec)
    if volumes is not None:
        body["spec"] = {"volumes": volumes}
    if seen.is_forwarded and metadata.annotation(JOB_FORWARDING) != "true":
        body["metadata"] = {"annotations": {JOB_FORWARDING: "true"}}
    if not body:
        return None
    return Patch(JOBS, *metadata.key, metadata.uid, body, version=metadata.resource_version)


def _is_admitted(seen: "Seen") -> bool:
    """Pods are made when the PodGroup is admitted; a job that runs replaces pods at once."""
    if seen.group is None or seen.group.metadata.is_terminating:
        return False
    return seen.group.status.phase in _ADMITTED or seen.job.status.phase is Phase.RUNNING


def cleanup_acts(job: Job, spec: JobSpec, held: Mapping[str, str]) -> list[Act]:
    """Deletes what the plugins of a job made."""
    acts: list[Act] = []
    try:
        for name, plugin in job_plugins(spec):
            if f"plugin-{name}" in held:
                acts += [
                    Delete(
                        one.resource,
                        job.metadata.namespace,
                        one.name,
                        owner_uid=job.metadata.uid,
                    )
                    for one in plugin.objects(job, spec)
                ]
    except ValueError:
        # A plugin that does not exist made nothing.
        return acts
    return acts


def _plugin_acts(seen: "Seen", status: JobStatus) -> list[Act]:
    """Raises ValueError for an unknown plugin."""
    acts: list[Act] = []
    held = dict(status.controlled_resources or {})
    refused = Emit(seen.about, "PluginError", "Error creating objects of a plugin")
    for name, plugin in job_plugins(seen.spec):
        key = f"plugin-{name}"
        is_new = key not in held
        if is_new and plugin.problem:
            text = f"plugin {name}: {plugin.problem}; it and what follows it has no effect"
            acts.append(Emit(seen.about, "PluginError", text, warning=True))
        for one in plugin.objects(seen.job, seen.spec):
            current = seen.config_maps.get(one.name) if one.resource == CONFIG_MAPS else None
            if one.follows and current is not None and current != one.body["data"]:
                acts.append(_config_map_patch(seen, one.name, current, one.body["data"]))
            elif is_new or (one.follows and current is None):
                acts.append(
                    Create(
                        one.resource,
                        one.body,
                        refused,
                        may_exist=True,
                        # Those of Volcano have no label, so that they are not watched.
                        takes_over=one.follows,
                        complete=one.complete,
                    )
                )
        held[key] = name
    status.controlled_resources = held or None
    return acts


def _config_map_patch(
    seen: "Seen", name: str, held: Mapping[str, str], wanted: Mapping[str, str]
) -> Act:
    removed: dict[str, str | None] = dict.fromkeys(held.keys() - wanted.keys())
    return Patch(
        CONFIG_MAPS, seen.job.metadata.namespace, name, "", {"data": {**removed, **wanted}}
    )


def _claim_acts(seen: "Seen", status: JobStatus) -> tuple[bool, list[Act]]:
    """Whether the job waits for a claim, and what claims need."""
    acts: list[Act] = []
    names = claim_names(seen.job, seen.spec)
    bodies = claim_bodies(seen.job, seen.spec)
    held = dict(status.controlled_resources or {})
    refused = Emit(seen.about, "PVCError", "Error creating a claim")
    is_missing = False
    for name in names:
        if name in seen.claims:
            held[f"volume-pvc-{name}"] = name
        elif name in bodies:
            acts.append(Create(CLAIMS, bodies[name], refused, may_exist=True))
            held[f"volume-pvc-{name}"] = name
        else:
            is_missing = True
            about = f"claim {name!r} does not exist; the job waits for it"
            acts.append(Emit(seen.about, "PVCError", about, warning=True))
    status.controlled_resources = held or None
    return is_missing, acts


def _group_acts(seen: "Seen") -> list[Act]:
    refused = Emit(seen.about, "PodGroupError", "Error creating or updating the PodGroup")
    group = seen.group
    if group is None:
        body = group_body(seen.job, seen.spec, seen.priorities, seen.min_resources)
        return [Create(POD_GROUP, body, refused)]
    patch = group_patch(seen.spec, group, seen.priorities, seen.min_resources)
    if patch is None or group.metadata.is_terminating:
        return []
    metadata = group.metadata
    return [Patch(POD_GROUP, *metadata.key, metadata.uid, patch, on_refusal=refused)]


def _pod_acts(seen: "Seen") -> list[Act]:
    """Pods that are missing, pods beyond the replicas, and pods that were marked. Raises ValueError."""
    held = {pod.metadata.name: pod for pod in seen.pods}
    about = seen.about
    acts: list[Act] = []
    wanted: set[str] = set()
    dependencies: Dependencies | None = None
    evictions = seen.evictions if has_timeouts(seen.spec) else ()
    evicted_ms = {one.pod: one.at_ms for one in evictions}
    for task in seen.spec.tasks or ():
        names = [pod_name(seen.job.metadata.name, task.name, n) for n in range(task.replicas)]
        wanted.update(names)
        missing = [index for index, name in enumerate(names) if name not in held]
        if missing and dependencies is None:
            dependencies = Dependencies(seen.spec, seen.pods)
        if missing and dependencies is not None and dependencies.is_released(task):
            refused = Emit(about, "FailedCreate", "Error creating pods")
            for index in missing:
                body = pod_body(
                    seen.job,
                    seen.spec,
                    task,
                    index,
                    is_forwarded=bool(seen.is_forwarded),
                    group=seen.group.metadata.name if seen.group is not None else "",
                    evicted_ms=evicted_ms.get(names[index], 0),
                )
                acts.append(Create(PODS, body, refused))
    refused = Emit(about, "FailedDelete", "Error deleting pods")
    for name, pod in held.items():
        if (name not in wanted or pod.is_marked) and not pod.metadata.is_terminating:
            metadata = pod.metadata
            acts.append(Delete(PODS, *metadata.key, uid=metadata.uid, on_refusal=refused))
    return acts


def _condition_event(seen: "Seen") -> list[tuple[Act, ...]]:
    """An event when the newest condition of the PodGroup is not that it is scheduled."""
    conditions = seen.group.status.conditions if seen.group is not None else None
    true = [one for one in conditions or () if one.status == "True"]
    newest = max(true, key=lambda one: one.last_transition_time or "", default=None)
    if newest is None or newest.type == "Scheduled":
        return []
    metadata = seen.job.metadata
    text = (
        f"PodGroup {metadata.namespace}:{metadata.name} {newest.type.lower()},"
        f" reason: {newest.message}"
    )
    about = Reference.of(JOBS, metadata)
    return [(Emit(about, "PodGroupPending", text, warning=True),)]
