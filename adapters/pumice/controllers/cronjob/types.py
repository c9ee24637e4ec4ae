"""CronJobs, as far as their controller reads them."""

from typing import Final

import msgspec

from pumice.controllers.runtime.objects import Manifest, Watched

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
KIND: Final = "CronJob"
SCHEDULED_AT: Final = "volcano.sh/cronjob-scheduled-timestamp"
# On a CronJob whose schedule was changed: the schedule, its zone, and since when they hold.
SCHEDULE_SINCE: Final = "pumice.sh/schedule-since"


class CronJobSpec(msgspec.Struct, rename="camel"):
    """When Jobs are made, and which."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool | None = None
    job_template: Manifest = {}
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(msgspec.Struct, rename="camel"):
    """What the schedule has made."""

    active: list[Manifest] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Watched):
    """A CronJob."""

    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus = msgspec.field(default_factory=CronJobStatus)

    @property
    def times(self) -> tuple[str, str | None]:
        """What decides when Jobs are made."""
        return self.spec.schedule, self.spec.time_zone
