"""Deletes the pods and the PodGroup that the phase of a Job ends."""

from collections.abc import Iterable
from typing import Final

from pumice.controllers.job.observed import Observed
from pumice.controllers.job.types import Action, Job, JobSpec, Phase, Pod, job_version
from pumice.controllers.podgroup.types import PodGroup
from pumice.controllers.resources import POD_GROUP, PODS
from pumice.controllers.runtime.acts import Act, Delete

# Reasons of the phase Restarting for which the whole job is restarted.
_WHOLE_JOB: Final = ("", Action.RESTART, Action.RESUME)


def pods_to_delete(job: Job, spec: JobSpec, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that the phase of a job ends, without those that are terminating already."""
    alive = [pod for pod in pods if not pod.metadata.is_terminating]
    status = job.status
    if status.phase is not Phase.RESTARTING:
        return [pod for pod in alive if not pod.is_finished]
    if status.state.reason not in _WHOLE_JOB:
        return []
    old = [pod for pod in alive if pod.version < status.version]
    if status.state.reason != Action.RESUME and status.retry_count < spec.max_retry:
        return old
    # The last retry keeps failed pods, so that users can inspect them; a resume keeps finished pods.
    return [pod for pod in old if not pod.is_finished]


def is_stale_group(job: Job, group: PodGroup) -> bool:
    """Whether a PodGroup belongs to an older version of a job that is restarting."""
    status = job.status
    return (
        status.phase is Phase.RESTARTING
        and status.state.reason in _WHOLE_JOB
        and job_version(group.metadata) < status.version
    )


def pod_deletions(observed: Observed, pods: Iterable[Pod]) -> list[Act]:
    refused = observed.event("FailedDelete", "Error deleting pods")
    return [Delete.of(PODS, pod.metadata, on_refusal=refused) for pod in pods]


def deletions(observed: Observed) -> list[Act]:
    """Deletes the pods that the phase ends, and the PodGroup unless the phase still needs it."""
    job, group = observed.job, observed.group
    acts = pod_deletions(observed, pods_to_delete(job, observed.spec, observed.pods))
    if group is not None and not group.metadata.is_terminating:
        is_needed = job.status.phase is Phase.RESTARTING and not is_stale_group(job, group)
        if not is_needed:
            acts.append(Delete.of(POD_GROUP, group.metadata))
    return acts
