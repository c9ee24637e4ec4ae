"""CronJobs, as far as their controller reads them."""

from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.controllers.runtime.objects import ApiObject, Manifest
from pumice.controllers.runtime.times import milliseconds, shown_exactly

SCHEDULED_AT: Final = "volcano.sh/cronjob-scheduled-timestamp"
# On a CronJob whose schedule was changed: the schedule, its time zone, and since when they hold.
SCHEDULE_SINCE: Final = "pumice.sh/schedule-since"


class CronJobSpec(msgspec.Struct, rename="camel"):
    """When Jobs are created, and from which template."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool | None = None
    job_template: Manifest = {}
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(msgspec.Struct, rename="camel"):
    """The Jobs that run, and the times of the last Jobs."""

    active: list[Manifest] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class _ScheduleSince(msgspec.Struct, rename="camel"):
    """The content of the annotation."""

    schedule: str
    since: str
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """A schedule with its time zone, and since when they hold. Times before that do not count."""

    schedule: tuple[str, str | None]
    since_ms: int

    def annotation(self) -> str:
        text, time_zone = self.schedule
        since = _ScheduleSince(text, shown_exactly(self.since_ms), time_zone)
        return msgspec.json.encode(since).decode()


class CronJob(ApiObject):
    """A CronJob."""

    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus = msgspec.field(default_factory=CronJobStatus)

    @property
    def schedule(self) -> tuple[str, str | None]:
        """The schedule and its time zone."""
        return self.spec.schedule, self.spec.time_zone

    @property
    def stored_change(self) -> ScheduleChange | None:
        """The change in the annotation; None: there is none, or it is invalid.

        The annotation keeps the time of a change over a restart, and reveals a change that was made
        while no controller ran.
        """
        text = self.metadata.annotation(SCHEDULE_SINCE)
        if not text:
            return None
        try:
            stored = msgspec.json.decode(text, type=_ScheduleSince)
        except msgspec.DecodeError:
            return None
        return ScheduleChange((stored.schedule, stored.time_zone), milliseconds(stored.since))
