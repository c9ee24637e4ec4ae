"""The annotation that says since when a changed schedule holds.

Times before the change do not count. The annotation keeps the time of the change over a restart, and
shows a change that was made while no controller ran.
"""

from dataclasses import dataclass

import msgspec

from pumice.controllers.cronjob.types import SCHEDULE_SINCE, CronJob
from pumice.controllers.job.times import milliseconds, shown_exactly
from pumice.controllers.resources import CRON_JOBS
from pumice.controllers.runtime.acts import Emit, Patch


class _Noted(msgspec.Struct, rename="camel"):
    """The content of the annotation."""

    schedule: str
    since: str
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """Times that a schedule was changed to, and when."""

    times: tuple[str, str | None]
    since_ms: int


def noted_change(cron: CronJob) -> ScheduleChange | None:
    """The change that the annotation tells; None: there is none that can be read."""
    text = cron.metadata.annotation(SCHEDULE_SINCE)
    if not text:
        return None
    try:
        noted = msgspec.json.decode(text, type=_Noted)
    except msgspec.DecodeError:
        return None
    return ScheduleChange((noted.schedule, noted.time_zone), milliseconds(noted.since))


def note(cron: CronJob, since_ms: int, on_refusal: Emit) -> Patch:
    """Writes the annotation."""
    noted = _Noted(cron.spec.schedule, shown_exactly(since_ms), cron.spec.time_zone)
    text = msgspec.json.encode(noted).decode()
    body = {"metadata": {"annotations": {SCHEDULE_SINCE: text}}}
    metadata = cron.metadata
    return Patch(CRON_JOBS, *metadata.key, metadata.uid, body, on_refusal=on_refusal)
