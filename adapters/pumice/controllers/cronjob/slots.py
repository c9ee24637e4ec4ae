"""Which time of a schedule is due."""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from pumice.controllers.cronjob.schedule import Schedule

# More missed times than this are reported.
MANY_MISSED: Final = 100


@dataclass(frozen=True, slots=True)
class Due:
    """The newest time that is due, if any; the next one; and whether many were missed."""

    slot: datetime | None
    following: datetime | None
    has_missed_many: bool = False


def due(schedule: Schedule, zone: tzinfo, since: datetime, now: datetime) -> Due:
    """Looks at the times after `since`."""
    first = schedule.after(since, zone)
    if first is None or first > now:
        return Due(None, first)
    second = schedule.after(first, zone)
    if second is None or second > now:
        return Due(first, second)
    if schedule.every_seconds:
        count = int((now - first).total_seconds()) // schedule.every_seconds
        slot = first + timedelta(seconds=count * schedule.every_seconds)
        following = slot + timedelta(seconds=schedule.every_seconds)
        return Due(slot, following, count >= MANY_MISSED)
    newest, following_newest, missed = _newest(schedule, zone, first, now)
    return Due(newest, following_newest, missed > MANY_MISSED)


def _newest(
    schedule: Schedule, zone: tzinfo, first: datetime, now: datetime
) -> tuple[datetime, datetime | None, int]:
    """The newest time until now. Far behind, it looks backwards from now instead."""
    slot, missed = first, 1
    while (following := schedule.after(slot, zone)) is not None and following <= now:
        slot, missed = following, missed + 1
        if missed > MANY_MISSED:
            slot = _last_before(schedule, zone, slot, now)
            return slot, schedule.after(slot, zone), missed
    return slot, following, missed


def _last_before(schedule: Schedule, zone: tzinfo, known: datetime, now: datetime) -> datetime:
    window = timedelta(minutes=2)
    while now - window > known:
        found = schedule.after(now - window, zone)
        if found is not None and found <= now:
            while (later := schedule.after(found, zone)) is not None and later <= now:
                found = later
            return found
        window *= 2
    return known
