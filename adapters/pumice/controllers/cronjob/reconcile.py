"""Reconciles a CronJob: a Job at each time of its schedule, its status, and its history of Jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pumice.controllers.cronjob.schedule import (
    MOST_YEARS,
    Due,
    Schedule,
    ScheduleError,
    due,
    parse,
)
from pumice.controllers.cronjob.types import (
    SCHEDULE_SINCE,
    SCHEDULED_AT,
    CronJob,
    ScheduleChange,
)
from pumice.controllers.job.types import FINISHED, Job, Phase
from pumice.controllers.resources import CRON_JOBS, JOBS
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
from pumice.controllers.runtime.times import milliseconds, shown

# The key is reconciled so long after a time of the schedule, so that the time is surely due.
_LATER_SECONDS: Final = 0.1
# Default limits of the history.
_SUCCESSFUL_JOBS: Final = 3
_FAILED_JOBS: Final = 1


class ZoneError(ValueError):
    """A time zone that is unknown."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A CronJob and its Jobs."""

    cron: CronJob
    jobs: tuple[Job, ...]
    now_ms: int
    # Names of other Jobs of the namespace that a Job of the CronJob could have.
    foreign: frozenset[str] = frozenset()
    # When the schedule or its time zone was changed; times before that do not count. 0: unknown.
    changed_ms: int = 0


def reconcile(observed: Observed) -> Plan:
    """Deletes old Jobs, creates the Job that is due, and then writes the status and the annotation."""
    if observed.cron.metadata.is_terminating:
        return NOTHING
    plan, annotation = _reconcile(observed), _schedule_since(observed)
    return replace(plan, stages=(*plan.stages, annotation)) if annotation else plan


def _reconcile(observed: Observed) -> Plan:
    cron = observed.cron
    removals = _old_jobs(cron, observed.jobs)
    if cron.spec.suspend:
        return Plan.of(removals, _status(observed, None))
    try:
        schedule, zone = parse(cron.spec.schedule), _zone(cron)
    except ScheduleError as error:
        event = _event(cron, "UnParseableCronJobSchedule", f"spec.schedule: {error}", warning=True)
        return Plan.of(removals, (event,), _status(observed, None))
    except ZoneError as error:
        event = _event(cron, "InvalidTimeZone", f"spec.timeZone: {error}", warning=True)
        return Plan.of(removals, (event,), _status(observed, None))
    found = _due(observed, schedule, zone)
    acts, slot = _start(observed, found, zone)
    if found.slot is None and found.following is None:
        text = f"spec.schedule: {cron.spec.schedule!r} has no time within {MOST_YEARS} years"
        acts = [_event(cron, "InvalidSchedule", text, warning=True)]
    # The status is written after the created Job is observed, so that one write has the Job too.
    creates = any(isinstance(act, Create) for act in acts)
    if creates and cron.spec.concurrency_policy == "Replace":
        removals += _replaced(observed)
    again = None
    if found.following is not None:
        again = max(0.0, found.following.timestamp() - observed.now_ms / 1000) + _LATER_SECONDS
    status = () if creates else _status(observed, slot)
    return Plan.of(removals, acts, status, again_seconds=again)


def _schedule_since(observed: Observed) -> tuple[Act, ...]:
    """Stores the time of a change in the annotation."""
    cron, change = observed.cron, ScheduleChange(observed.cron.schedule, observed.changed_ms)
    if not observed.changed_ms or cron.stored_change == change:
        return ()
    text = f"the time of the change of spec.schedule is not stored in {SCHEDULE_SINCE}"
    refused = _event(cron, "FailedUpdate", text, warning=True)
    body = {"metadata": {"annotations": {SCHEDULE_SINCE: change.annotation()}}}
    return (Patch.of(CRON_JOBS, cron.metadata, body, on_refusal=refused),)


def _zone(cron: CronJob) -> tzinfo:
    name = cron.spec.time_zone
    if name is None:
        return UTC
    try:
        if name and name.lower() != "local":
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # Unknown, a path outside of the time zone database, or a directory in it.
        pass
    raise ZoneError(f"{name!r} is unknown; allowed: a name such as Europe/Berlin")


def _due(observed: Observed, schedule: Schedule, zone: tzinfo) -> Due:
    cron, now = observed.cron, datetime.fromtimestamp(observed.now_ms / 1000, UTC)
    last = cron.status.last_schedule_time or cron.metadata.creation_timestamp
    since_ms = max(milliseconds(last), observed.changed_ms)
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    deadline = cron.spec.starting_deadline_seconds
    # A longer deadline has no effect, and the largest ones are out of the range of dates.
    if deadline is not None and deadline < (now - since).total_seconds():
        since = max(since, now - timedelta(seconds=deadline, microseconds=1))
    return due(schedule, zone, since, now)


def _start(observed: Observed, found: Due, zone: tzinfo) -> tuple[list[Act], datetime | None]:
    """The acts that create the Job that is due, and its time if the Job counts as created."""
    cron, slot = observed.cron, found.slot
    if slot is None:
        return [], None
    name = f"{cron.metadata.name}-{int(slot.timestamp()) // 60}"
    if any(job.metadata.name == name for job in observed.jobs):
        # The Job was created by a process that ended before it wrote the status.
        return [], slot
    if name in observed.foreign:
        text = f"Job {name} exists and belongs to another object"
        return [_event(cron, "ForeignJob", text, warning=True)], None
    active = _active(observed.jobs)
    acts: list[Act] = []
    if active and cron.spec.concurrency_policy == "Forbid":
        text = f"a Job still runs: {active[0].metadata.name}"
        return [_event(cron, "ForbidConcurrent", text, warning=True)], None
    if found.has_missed_many:
        text = "more than 100 times were missed; only the newest is started"
        acts.append(_event(cron, "TooManyMissedTimes", text, warning=True))
    refused = _event(cron, "FailedCreate", f"Job {name} could not be created", warning=True)
    acts.append(Create(JOBS, _job(cron, name, slot, zone), on_refusal=refused, reads_back=True))
    acts.append(_event(cron, "SuccessfulCreate", f"created Job {name}"))
    return acts, slot


def _replaced(observed: Observed) -> list[Act]:
    """Deletes the active Jobs, in an earlier stage than the new Job is created."""
    active = _active(observed.jobs)
    if not active:
        return []
    names = ", ".join(job.metadata.name for job in active)
    event = _event(observed.cron, "ReplaceConcurrent", f"{names} is replaced", warning=True)
    return [*(_removal(observed.cron, job) for job in active), event]


def _job(cron: CronJob, name: str, slot: datetime, zone: tzinfo) -> Manifest:
    template = cron.spec.job_template
    given = template.get("metadata") or {}
    at = slot.astimezone(zone).isoformat().replace("+00:00", "Z")
    metadata = {
        "name": name,
        "namespace": cron.metadata.namespace,
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: at},
        "ownerReferences": [owner_reference(CRON_JOBS, cron.metadata)],
    }
    return new_object(JOBS, metadata, spec=template.get("spec") or {})


def _active(jobs: Sequence[Job]) -> list[Job]:
    return [
        job for job in jobs if job.status.phase not in FINISHED and not job.metadata.is_terminating
    ]


def _old_jobs(cron: CronJob, jobs: Sequence[Job]) -> list[Act]:
    """Deletes the oldest finished Jobs beyond the history limits. Terminated Jobs count as failed."""
    spec = cron.spec
    successful, failed = spec.successful_jobs_history_limit, spec.failed_jobs_history_limit
    finished = [
        job for job in jobs if job.status.phase in FINISHED and not job.metadata.is_terminating
    ]
    finished.sort(key=lambda job: (job.metadata.creation_timestamp, job.metadata.name))
    acts: list[Act] = []
    for is_successful, limit in (
        (True, _SUCCESSFUL_JOBS if successful is None else successful),
        (False, _FAILED_JOBS if failed is None else failed),
    ):
        ended = [job for job in finished if (job.status.phase is Phase.COMPLETED) == is_successful]
        for job in ended[: max(0, len(ended) - limit)]:
            acts.append(_removal(cron, job))
            acts.append(_event(cron, "SuccessfulDelete", f"deleted Job {job.metadata.name}"))
    return acts


def _removal(cron: CronJob, job: Job) -> Delete:
    text = f"Job {job.metadata.name} could not be deleted"
    refused = _event(cron, "FailedDelete", text, warning=True)
    return Delete.of(JOBS, job.metadata, on_refusal=refused)


def _status(observed: Observed, slot: datetime | None) -> list[Act]:
    """The changes of the status, and events about Jobs that are not active any more."""
    stored = observed.cron.status
    patch: Manifest = {}
    if slot is not None:
        at = shown(int(slot.timestamp()) * 1000)
        if stored.last_schedule_time != at:
            patch["lastScheduleTime"] = at
    active = [
        _reference(job) for job in sorted(_active(observed.jobs), key=lambda j: j.metadata.name)
    ]
    if [one.get("uid") for one in stored.active or ()] != [one["uid"] for one in active]:
        patch["active"] = active
    times = [job.status.state.last_transition_time or "" for job in observed.jobs
             if job.status.phase == Phase.COMPLETED]  # fmt: skip
    last = max([*times, stored.last_successful_time or ""])
    if last and last != stored.last_successful_time:
        patch["lastSuccessfulTime"] = last
    if not patch:
        return []
    write = Patch.of_status(CRON_JOBS, observed.cron.metadata, patch)
    return [write, *_events_of_ended(observed)]


def _events_of_ended(observed: Observed) -> list[Emit]:
    """An event for each Job that the stored status lists as active and that has ended or was deleted."""
    by_uid = {job.metadata.uid: job for job in observed.jobs}
    events = []
    for one in observed.cron.status.active or ():
        name, job = one.get("name", ""), by_uid.get(one.get("uid", ""))
        if job is None:
            text = f"active Job {name} does not exist any more"
            events.append(_event(observed.cron, "StaleReference", text, warning=True))
        elif job.status.phase in FINISHED:
            text = f"Job {name} has ended: {job.status.phase.value}"
            events.append(_event(observed.cron, "SawCompletedJob", text))
    return events


def _reference(job: Job) -> Manifest:
    metadata = job.metadata
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.name,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }


def _event(cron: CronJob, reason: str, text: str, *, warning: bool = False) -> Emit:
    return Emit(Reference.of(CRON_JOBS, cron.metadata), reason, text, warning=warning)
