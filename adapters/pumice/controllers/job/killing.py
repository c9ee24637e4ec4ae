"""The pods and PodGroups of a Job that are to be deleted."""

from collections.abc import Iterable

from pumice.controllers.job.types import Action, Job, JobSpec, Phase, Pod, PodGroup


def pods_to_delete(job: Job, spec: JobSpec, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that the phase of a job ends, without those that are terminating already."""
    alive = [pod for pod in pods if not pod.metadata.is_terminating]
    status = job.status
    if status.phase is not Phase.RESTARTING:
        return [pod for pod in alive if not pod.is_finished]
    old = [pod for pod in alive if pod.version < status.version]
    reason = status.state.reason
    if reason in ("", Action.RESTART) and status.retry_count < spec.max_retry:
        return old
    if reason in ("", Action.RESTART, Action.RESUME):
        # The last retry keeps failed pods for users to look at; a resume keeps finished pods.
        return [pod for pod in old if not pod.is_finished]
    return []


def is_stale_group(job: Job, group: PodGroup) -> bool:
    """Whether a PodGroup belongs to an older version of a job that is restarting."""
    status = job.status
    if status.phase is not Phase.RESTARTING:
        return False
    is_whole = status.state.reason in ("", Action.RESTART, Action.RESUME)
    return is_whole and group.version < status.version
