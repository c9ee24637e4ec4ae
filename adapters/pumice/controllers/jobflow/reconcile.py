"""Reconciles a JobFlow: the Jobs whose dependencies have completed, and the status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.controllers.dependency_graph import unsatisfiable
from pumice.controllers.job.statuses import difference
from pumice.controllers.job.types import FINISHED, Job, Phase
from pumice.controllers.jobflow.types import (
    BY_FLOW,
    BY_TEMPLATE,
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
from pumice.controllers.runtime.objects import Manifest, new_object, owner_reference

_LABEL_CHARACTERS: Final = 63
# Phases in which no Job is created any more.
_ENDED: Final = ("Succeed", "Failed", "Terminating")
# Lists of Jobs in the status, by the phase of a Job. Jobs of other phases are in no list.
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
class Observed:
    """A JobFlow, its Jobs by name, and the templates of its flows by name."""

    flow: JobFlow
    jobs: Mapping[str, Job] = field(default_factory=dict)
    templates: Mapping[str, JobTemplate] = field(default_factory=dict)


def reconcile(observed: Observed) -> Plan:
    """Creates Jobs first, and then writes the status."""
    flow = observed.flow
    if flow.metadata.is_terminating:
        return NOTHING
    if flow.phase == "Succeed" and flow.spec.job_retain_policy == "delete":
        remaining = [
            job.metadata for job in observed.jobs.values() if not job.metadata.is_terminating
        ]
        return Plan.of([Delete.of(JOBS, metadata) for metadata in remaining])
    acts = [] if flow.phase in _ENDED else _creations(observed)
    if not flow.phase and (stuck := never_ready(flow)):
        text = f"flows {', '.join(stuck)} never start: each waits for itself or a missing flow"
        about = Reference.of(JOB_FLOWS, flow.metadata)
        acts.append(Emit(about, "DependencyCycle", text, warning=True))
    changes = difference(flow.status, _status(observed))
    return Plan.of(acts, [Patch.of_status(JOB_FLOWS, flow.metadata, changes)] if changes else ())


def _creations(observed: Observed) -> list[Act]:
    acts: list[Act] = []
    done = set((observed.flow.status.get("completedJobs")) or ())
    # If several flows have one name, the first counts.
    flows = {one.name: one for one in reversed(observed.flow.spec.flows or ())}
    for one in reversed(flows.values()):
        name = observed.flow.job_name(one.name)
        # A completed Job that was deleted is not created again.
        if name in observed.jobs or name in done or not _is_ready(observed, one, done):
            continue
        acts += _creation(observed, one, name)
    return acts


def _is_ready(observed: Observed, one: Flow, done: set[str]) -> bool:
    for target in one.targets:
        name = observed.flow.job_name(target)
        job = observed.jobs.get(name)
        if name in done:
            continue
        if job is None or job.status.phase != Phase.COMPLETED:
            return False
    return True


def never_ready(flow: JobFlow) -> list[str]:
    """Flows that depend on themselves, directly or indirectly, or on flows that do not exist."""
    flows = {one.name: one.targets for one in reversed(flow.spec.flows or ())}
    return sorted(unsatisfiable(flows))


def _creation(observed: Observed, one: Flow, name: str) -> list[Act]:
    flow, template = observed.flow, observed.templates.get(one.name)
    about = Reference.of(JOB_FLOWS, flow.metadata)
    namespace = flow.metadata.namespace
    if template is None:
        text = f"flow {one.name}: JobTemplate {namespace}/{one.name} does not exist"
        return [Emit(about, "MissingTemplate", text, warning=True)]
    acts: list[Act] = []
    if one.depends_on is not None and one.depends_on.probe is not None:
        text = f"flow {one.name}: dependsOn.probe has no effect"
        acts.append(Emit(about, "ProbeIgnored", text, warning=True))
    origin = {
        BY_TEMPLATE: f"{namespace}.{one.name}",
        BY_FLOW: f"{namespace}.{flow.metadata.name}",
    }
    metadata = {
        "name": name,
        "namespace": namespace,
        # Longer values cannot be labels.
        "labels": {key: text for key, text in origin.items() if len(text) <= _LABEL_CHARACTERS},
        "annotations": origin,
        "ownerReferences": [owner_reference(JOB_FLOWS, flow.metadata)],
    }
    patch = one.patch.job_spec if one.patch is not None else None
    body = new_object(JOBS, metadata, spec=merged(template.spec, patch or {}))
    refused = Emit(about, "FailedCreate", f"Job {name} could not be created", warning=True)
    acts.append(Create(JOBS, body, on_refusal=refused, reads_back=True))
    acts.append(Emit(about, "Created", f"created Job {name}"))
    return acts


def merged(spec: Manifest, patch: Manifest) -> Manifest:
    """A spec with a patch applied. Tasks are matched by name, other lists are replaced."""
    found = dict(spec)
    for name, value in patch.items():
        old = found.get(name)
        if name == "tasks" and isinstance(old, list):
            changes = {task.get("name"): task for task in value}
            found[name] = [merged(task, changes.pop(task.get("name"), {})) for task in old]
            found[name] += changes.values()
        elif isinstance(old, dict) and isinstance(value, dict):
            found[name] = merged(old, value)
        else:
            found[name] = value
    return found


def _status(observed: Observed) -> Manifest:
    flow = observed.flow
    lists: dict[str, list[str]] = {name: [] for name in _LISTS.values()}
    for name, job in sorted(observed.jobs.items()):
        if job.status.phase in _LISTS:
            lists[_LISTS[job.status.phase]].append(name)
    gone = [name for name in flow.status.get("completedJobs") or () if name not in observed.jobs]
    lists["completedJobs"] = sorted({*lists["completedJobs"], *gone})
    conditions = {name: _condition(job) for name, job in sorted(observed.jobs.items())}
    status: Manifest = {**lists, "conditions": conditions}
    status["jobStatusList"] = [
        _job_status(name, job) for name, job in sorted(observed.jobs.items())
    ]
    status["state"] = {"phase": _phase(flow, lists)}
    return status


def _phase(flow: JobFlow, lists: Mapping[str, list[str]]) -> str:
    phase = flow.phase
    if phase in _ENDED:
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
    if job.status.phase in FINISHED and state.last_transition_time:
        found["endTimestamp"] = state.last_transition_time
    return found
