"""What a CronJob needs: a Job at each time of its schedule, a status, and a short history."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pumice.controllers.cronjob.changes import ScheduleChange, note, noted_change
from pumice.controllers.cronjob.schedule import MOST_YEARS, Schedule, ScheduleError, parse
from pumice.controllers.cronjob.slots import Due, due
from pumice.controllers.cronjob.types import (
    API_VERSION,
    KIND,
    SCHEDULE_SINCE,
    SCHEDULED_AT,
    CronJob,
)
from pumice.controllers.job.times import milliseconds, shown
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
from pumice.controllers.runtime.objects import Manifest, owner_reference

# After the time of the schedule, so that it is due for certain.
_LATER_SECONDS: Final = 0.1
_DEFAULT_KEPT: Final = {Phase.COMPLETED: 3, Phase.FAILED: 1}


class ZoneError(ValueError):
    """A time zone that is not known."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A CronJob, its Jobs, names of other Jobs of its namespace, and the time."""

    cron: CronJob
    jobs: tuple[Job, ...]
    now_ms: int
    # Names of Jobs that other objects own.
    foreign: frozenset[str] = frozenset()
    # When the schedule or its zone was changed; times before that do not count. 0: not known.
    changed_ms: int = 0


def reconcile(seen: Seen) -> Plan:
    """History first, then the Job that is due, then the status and the time of a changed schedule."""
    if seen.cron.metadata.is_terminating:
        return NOTHING
    plan, noted = _reconcile(seen), _note(seen)
    return replace(plan, stages=(*plan.stages, noted)) if noted else plan


def _reconcile(seen: Seen) -> Plan:
    cron = seen.cron
    removals = _history(cron, seen.jobs)
    if cron.spec.suspend:
        return _plan(removals, (), _status(seen, None))
    try:
        schedule, zone = parse(cron.spec.schedule), _zone(cron)
    except ScheduleError as error:
        event = _event(cron, "UnParseableCronJobSchedule", f"spec.schedule: {error}", warning=True)
        return _plan(removals, (event,), _status(seen, None))
    except ZoneError as error:
        event = _event(cron, "InvalidTimeZone", f"spec.timeZone: {error}", warning=True)
        return _plan(removals, (event,), _status(seen, None))
    found = _due(seen, schedule, zone)
    acts, slot = _start(seen, found, zone)
    if found.slot is None and found.following is None:
        text = f"spec.schedule: {cron.spec.schedule!r} has no time within {MOST_YEARS} years"
        acts = [_event(cron, "InvalidSchedule", text, warning=True)]
    # The status is written when the Job that is made now is seen: it then names the Job at once.
    is_made = any(isinstance(act, Create) for act in acts)
    if is_made and cron.spec.concurrency_policy == "Replace":
        removals += _replaced(seen)
    again = None
    if found.following is not None:
        again = max(0.0, found.following.timestamp() - seen.now_ms / 1000) + _LATER_SECONDS
    return _plan(removals, acts, () if is_made else _status(seen, slot), again)


def _note(seen: Seen) -> tuple[Act, ...]:
    """Keeps the time of a change over a restart."""
    cron, noted = seen.cron, noted_change(seen.cron)
    if not seen.changed_ms or noted == ScheduleChange(cron.times, seen.changed_ms):
        return ()
    text = f"the time of the change of spec.schedule is not stored in {SCHEDULE_SINCE}"
    refused = _event(cron, "FailedUpdate", text, warning=True)
    return (note(cron, seen.changed_ms, refused),)


def _plan(
    removals: Sequence[Act], acts: Sequence[Act], status: Sequence[Act], again: float | None = None
) -> Plan:
    return Plan(tuple(tuple(stage) for stage in (removals, acts, status) if stage), again)


def _zone(cron: CronJob) -> tzinfo:
    name = cron.spec.time_zone
    if name is None:
        return UTC
    try:
        if name and name.lower() != "local":
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # Unknown, outside of the folder of zones, or a part of a name.
        pass
    raise ZoneError(f"{name!r} is unknown; allowed: a name such as Europe/Berlin")


def _due(seen: Seen, schedule: Schedule, zone: tzinfo) -> Due:
    cron, now = seen.cron, datetime.fromtimestamp(seen.now_ms / 1000, UTC)
    last = cron.status.last_schedule_time or cron.metadata.creation_timestamp
    since_ms = max(milliseconds(last), seen.changed_ms)
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    deadline = cron.spec.starting_deadline_seconds
    # A longer one has no effect, and the largest ones are beyond any date.
    if deadline is not None and deadline < (now - since).total_seconds():
        since = max(since, now - timedelta(seconds=deadline, microseconds=1))
    return due(schedule, zone, since, now)


def _start(seen: Seen, found: Due, zone: tzinfo) -> tuple[list[Act], datetime | None]:
    """The acts that start the Job that is due, and its time when it counts as started."""
    cron, slot = seen.cron, found.slot
    if slot is None:
        return [], None
    name = f"{cron.metadata.name}-{int(slot.timestamp()) // 60}"
    if any(job.metadata.name == name for job in seen.jobs):
        # Made before, by a process that ended before it wrote the status.
        return [], slot
    if name in seen.foreign:
        text = f"Job {name} exists and belongs to another object"
        return [_event(cron, "ForeignJob", text, warning=True)], None
    active = _active(seen.jobs)
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


def _replaced(seen: Seen) -> list[Act]:
    """Deletes the Jobs that run. The new Job is created in a later stage, and so never beside them."""
    active = _active(seen.jobs)
    if not active:
        return []
    names = ", ".join(job.metadata.name for job in active)
    event = _event(seen.cron, "ReplaceConcurrent", f"{names} is replaced", warning=True)
    return [*(_removal(seen.cron, job) for job in active), event]


def _job(cron: CronJob, name: str, slot: datetime, zone: tzinfo) -> Manifest:
    template = cron.spec.job_template
    given = template.get("metadata") or {}
    at = slot.astimezone(zone).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.name,
        "metadata": {
            "name": name,
            "namespace": cron.metadata.namespace,
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: at},
            "ownerReferences": [owner_reference(API_VERSION, KIND, cron.metadata)],
        },
        "spec": template.get("spec") or {},
    }


def _active(jobs: Sequence[Job]) -> list[Job]:
    return [
        job for job in jobs if job.status.phase not in FINISHED and not job.metadata.is_terminating
    ]


def _history(cron: CronJob, jobs: Sequence[Job]) -> list[Act]:
    """Removes the oldest finished Jobs. Terminated ones count as failed."""
    kept = {
        Phase.COMPLETED: cron.spec.successful_jobs_history_limit,
        Phase.FAILED: cron.spec.failed_jobs_history_limit,
    }
    acts: list[Act] = []
    for phase, limit in kept.items():
        most = _DEFAULT_KEPT[phase] if limit is None else limit
        ended = [job for job in jobs if job.status.phase in FINISHED
                 and (job.status.phase == Phase.COMPLETED) == (phase == Phase.COMPLETED)
                 and not job.metadata.is_terminating]  # fmt: skip
        ended.sort(key=lambda job: (job.metadata.creation_timestamp, job.metadata.name))
        for job in ended[: max(0, len(ended) - most)]:
            acts.append(_removal(cron, job))
            acts.append(_event(cron, "SuccessfulDelete", f"deleted Job {job.metadata.name}"))
    return acts


def _removal(cron: CronJob, job: Job) -> Delete:
    text = f"Job {job.metadata.name} could not be deleted"
    refused = _event(cron, "FailedDelete", text, warning=True)
    return Delete(JOBS, *job.metadata.key, uid=job.metadata.uid, on_refusal=refused)


def _status(seen: Seen, slot: datetime | None) -> list[Act]:
    """The status, if it changes, and what it means for Jobs that were active."""
    held = seen.cron.status
    patch: Manifest = {}
    if slot is not None:
        at = shown(int(slot.timestamp()) * 1000)
        if held.last_schedule_time != at:
            patch["lastScheduleTime"] = at
    active = [_reference(job) for job in sorted(_active(seen.jobs), key=lambda j: j.metadata.name)]
    events = _events_of_ended(seen)
    if [one.get("uid") for one in held.active or ()] != [one["uid"] for one in active]:
        patch["active"] = active
    times = [job.status.state.last_transition_time or "" for job in seen.jobs
             if job.status.phase == Phase.COMPLETED]  # fmt: skip
    last = max([*times, held.last_successful_time or ""])
    if last and last != held.last_successful_time:
        patch["lastSuccessfulTime"] = last
    if not patch:
        return []
    metadata = seen.cron.metadata
    write = Patch(CRON_JOBS, *metadata.key, metadata.uid, {"status": patch}, subresource="status")
    return [write, *events]


def _events_of_ended(seen: Seen) -> list[Emit]:
    """An event for each Job that the stored status lists as active and that has ended or is gone."""
    by_uid = {job.metadata.uid: job for job in seen.jobs}
    events = []
    for one in seen.cron.status.active or ():
        name, job = one.get("name", ""), by_uid.get(one.get("uid", ""))
        if job is None:
            text = f"active Job {name} does not exist any more"
            events.append(_event(seen.cron, "StaleReference", text, warning=True))
        elif job.status.phase in FINISHED:
            text = f"Job {name} has ended: {job.status.phase.value}"
            events.append(_event(seen.cron, "SawCompletedJob", text))
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
