"""What a JobFlow needs: the Jobs whose turn it is, and a status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.controllers.dependency_graph import never_free
from pumice.controllers.job.statuses import difference
from pumice.controllers.job.types import Job, Phase
from pumice.controllers.jobflow.types import (
    API_VERSION,
    BY_FLOW,
    BY_TEMPLATE,
    KIND,
    Flow,
    JobFlow,
    JobTemplate,
)
from pumice.controllers.resources import JOB_FLOWS, JOBS
from pumice.controllers.runtime.acts import (
    NOTHING,
    Act,
    Create,
    Delete,
    Emit,
    Patch,
    Plan,
    Reference,
)
from pumice.controllers.runtime.objects import Manifest, owner_reference

_LABEL_CHARACTERS: Final = 63
# Lists of the status by the phase of a Job; other phases are in none of them.
_LISTS: Final = {
    Phase.PENDING: "pendingJobs",
    Phase.RUNNING: "runningJobs",
    Phase.COMPLETED: "completedJobs",
    Phase.FAILED: "failedJobs",
    Phase.TERMINATED: "terminatedJobs",
    Phase.RESTARTING: "unKnowJobs",
    Phase.ABORTING: "unKnowJobs",
    Phase.ABORTED: "unKnowJobs",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A JobFlow, its Jobs by name, and the templates of its flows by name."""

    flow: JobFlow
    jobs: Mapping[str, Job] = field(default_factory=dict)
    templates: Mapping[str, JobTemplate] = field(default_factory=dict)


def reconcile(seen: Seen) -> Plan:
    """Jobs first, then the status that they lead to."""
    flow = seen.flow
    if flow.metadata.is_terminating:
        return NOTHING
    if flow.phase == "Succeed" and flow.spec.job_retain_policy == "delete":
        removals = tuple(
            Delete(JOBS, *job.metadata.key, uid=job.metadata.uid)
            for job in seen.jobs.values()
            if not job.metadata.is_terminating
        )
        return Plan((removals,)) if removals else NOTHING
    acts = [] if flow.phase in ("Succeed", "Failed", "Terminating") else _creations(seen)
    if not flow.phase and (stuck := never_ready(flow)):
        text = f"flows {', '.join(stuck)} never start: each waits for itself or a missing flow"
        about = Reference.of(JOB_FLOWS, flow.metadata)
        acts.append(Emit(about, "DependencyCycle", text, warning=True))
    status = _status(seen)
    last: list[Act] = []
    if status != flow.status:
        metadata = flow.metadata
        body = difference(flow.status, status)
        last = [
            Patch(JOB_FLOWS, *metadata.key, metadata.uid, {"status": body}, subresource="status")
        ]
    stages = tuple(tuple(stage) for stage in (acts, last) if stage)
    return Plan(stages) if stages else NOTHING


def _creations(seen: Seen) -> list[Act]:
    acts: list[Act] = []
    done = set((seen.flow.status.get("completedJobs")) or ())
    # Of several flows of one name, the first counts.
    flows = {one.name: one for one in reversed(seen.flow.spec.flows or ())}
    for one in reversed(flows.values()):
        name = seen.flow.job_name(one.name)
        # A Job that has completed and was deleted since stays done.
        if name in seen.jobs or name in done or not _is_ready(seen, one, done):
            continue
        acts += _creation(seen, one, name)
    return acts


def _is_ready(seen: Seen, one: Flow, done: set[str]) -> bool:
    for target in one.targets:
        name = seen.flow.job_name(target)
        job = seen.jobs.get(name)
        if name in done:
            continue
        if job is None or job.status.phase != Phase.COMPLETED:
            return False
    return True


def never_ready(flow: JobFlow) -> list[str]:
    """Flows that wait for themselves, directly or through others, or for flows that do not exist."""
    flows = {one.name: one.targets for one in reversed(flow.spec.flows or ())}
    return sorted(never_free(flows))


def _creation(seen: Seen, one: Flow, name: str) -> list[Act]:
    flow, template = seen.flow, seen.templates.get(one.name)
    about = Reference.of(JOB_FLOWS, flow.metadata)
    namespace = flow.metadata.namespace
    if template is None:
        text = f"flow {one.name}: JobTemplate {namespace}/{one.name} does not exist"
        return [Emit(about, "MissingTemplate", text, warning=True)]
    acts: list[Act] = []
    if one.depends_on is not None and one.depends_on.probe is not None:
        text = f"flow {one.name}: dependsOn.probe has no effect"
        acts.append(Emit(about, "ProbeIgnored", text, warning=True))
    marks = {
        BY_TEMPLATE: f"{namespace}.{one.name}",
        BY_FLOW: f"{namespace}.{flow.metadata.name}",
    }
    patch = one.patch.job_spec if one.patch is not None else None
    body: Manifest = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.name,
        "metadata": {
            "name": name,
            "namespace": namespace,
            # Longer values cannot be labels.
            "labels": {key: text for key, text in marks.items() if len(text) <= _LABEL_CHARACTERS},
            "annotations": marks,
            "ownerReferences": [owner_reference(API_VERSION, KIND, flow.metadata)],
        },
        "spec": merged(template.spec, patch or {}),
    }
    refused = Emit(about, "FailedCreate", f"Job {name} could not be created", warning=True)
    acts.append(Create(JOBS, body, on_refusal=refused, reads_back=True))
    acts.append(Emit(about, "Created", f"created Job {name}"))
    return acts


def merged(spec: Manifest, patch: Manifest) -> Manifest:
    """A spec with changes. Tasks are matched by name, other lists are replaced."""
    found = dict(spec)
    for name, value in patch.items():
        held = found.get(name)
        if name == "tasks" and isinstance(held, list):
            changes = {task.get("name"): task for task in value}
            found[name] = [merged(task, changes.pop(task.get("name"), {})) for task in held]
            found[name] += changes.values()
        elif isinstance(held, dict) and isinstance(value, dict):
            found[name] = merged(held, value)
        else:
            found[name] = value
    return found


def _status(seen: Seen) -> Manifest:
    flow = seen.flow
    lists: dict[str, list[str]] = {name: [] for name in _LISTS.values()}
    for name, job in sorted(seen.jobs.items()):
        if job.status.phase in _LISTS:
            lists[_LISTS[job.status.phase]].append(name)
    gone = [name for name in flow.status.get("completedJobs") or () if name not in seen.jobs]
    lists["completedJobs"] = sorted({*lists["completedJobs"], *gone})
    conditions = {name: _condition(job) for name, job in sorted(seen.jobs.items())}
    status: Manifest = {**lists, "conditions": conditions}
    status["jobStatusList"] = [_job_status(name, job) for name, job in sorted(seen.jobs.items())]
    status["state"] = {"phase": _phase(flow, lists)}
    return status


def _phase(flow: JobFlow, lists: Mapping[str, list[str]]) -> str:
    phase = flow.phase
    if phase in ("Succeed", "Failed", "Terminating"):
        return phase
    if lists["failedJobs"] or lists["terminatedJobs"]:
        return "Failed"
    flows = {one.name for one in flow.spec.flows or ()}
    if len(lists["completedJobs"]) == len(flows) and flows:
        return "Succeed"
    return "Running" if lists["runningJobs"] or lists["completedJobs"] else "Pending"


def _condition(job: Job) -> Manifest:
    status = job.status
    found: dict[str, Any] = {
        "phase": status.phase.value,
        "createTime": job.metadata.creation_timestamp,
        "runningDuration": status.running_duration,
        "taskStatusCount": status.task_status_count,
    }
    return {name: value for name, value in found.items() if value}


def _job_status(name: str, job: Job) -> Manifest:
    state = job.status.state
    found: Manifest = {
        "name": name,
        "state": job.status.phase.value,
        "startTimestamp": job.metadata.creation_timestamp,
        "restartCount": job.status.retry_count,
    }
    ended = job.status.phase in (Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED)
    if ended and state.last_transition_time:
        found["endTimestamp"] = state.last_transition_time
    return found
