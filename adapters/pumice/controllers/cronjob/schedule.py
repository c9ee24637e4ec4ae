"""Cron schedules: five fields, words such as @hourly, and @every with a duration.

A day must match both the field of days of the month and the field of days of the week. If neither
field is `*`, one of the two is enough; `*` with a step does not count as `*`. Times that the change to
daylight saving time skips do not occur.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from pumice.patterns.golang import parse_duration_ns

_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# Name, lowest and highest number of each field, and names of its numbers.
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_NANOSECONDS: Final = 1_000_000_000
# Times are searched for so many years; a time such as 30 February never occurs.
MOST_YEARS: Final = 5
# If more times were missed, an event reports it.
MANY_MISSED: Final = 100


class ScheduleError(ValueError):
    """A schedule that is invalid."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Sets of minutes, hours, days and months; or the seconds between two times."""

    fields: tuple[frozenset[int], ...] = ()
    has_day_stars: tuple[bool, bool] = (True, True)
    every_seconds: int = 0

    def after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """The first time after a moment; None: there is none within five years."""
        moment = moment.astimezone(UTC).replace(microsecond=0)
        if self.every_seconds:
            return moment + timedelta(seconds=self.every_seconds)
        found = moment.replace(second=0) + timedelta(minutes=1)
        end = found + timedelta(days=366 * MOST_YEARS)
        while found < end:
            step = self._step(found.astimezone(zone))
            if step is None:
                return found
            later = step.astimezone(UTC)
            found = later if later > found else found + timedelta(minutes=1)
        return None

    def _step(self, local: datetime) -> datetime | None:
        """The next local time that may match; None: this time matches."""
        minutes, hours, _, months, _ = self.fields
        midnight = local.replace(hour=0, minute=0, fold=0)
        if local.month not in months:
            first = midnight.replace(day=1)
            return (first + timedelta(days=32)).replace(day=1)
        if not self._is_day(local):
            return midnight + timedelta(days=1)
        if local.hour not in hours:
            # UTC, because a local hour may occur twice.
            return local.astimezone(UTC) + timedelta(minutes=60 - local.minute)
        if local.minute not in minutes:
            return local.astimezone(UTC) + timedelta(minutes=1)
        return None

    def _is_day(self, local: datetime) -> bool:
        in_month = local.day in self.fields[2]
        in_week = (local.weekday() + 1) % 7 in self.fields[4]
        if any(self.has_day_stars):
            return in_month and in_week
        return in_month or in_week


def parse(text: str) -> Schedule:
    """Parses a schedule. Raises ScheduleError."""
    text = text.strip()
    if "TZ=" in text:
        raise ScheduleError(f"{text!r} names a time zone; use spec.timeZone")
    if text.startswith("@every "):
        return Schedule(every_seconds=_seconds(text.removeprefix("@every ")))
    if text.startswith("@"):
        if text not in _WORDS:
            raise ScheduleError(f"{text!r} is unknown; allowed: {', '.join(_WORDS)}, @every")
        text = _WORDS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"{len(parts)} fields in {text!r}; allowed: {len(_FIELDS)}")
    fields = tuple(_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True))
    return Schedule(fields, (_is_star(parts[2]), _is_star(parts[4])))


def _is_star(field: str) -> bool:
    return any(term in ("*", "?", "*/1", "?/1") for term in field.split(","))


def _seconds(text: str) -> int:
    nanoseconds = parse_duration_ns(text.strip())
    if nanoseconds is None or nanoseconds <= 0:
        raise ScheduleError(f"@every {text!r} given; allowed: a duration such as 1h30m")
    return max(1, nanoseconds // _NANOSECONDS)


def _field(text: str, name: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for term in text.split(","):
        span, slash, step_text = term.partition("/")
        step = _number(step_text, name, 1, high * 10, {}) if slash else 1
        if span in ("*", "?"):
            first, last = low, high
        else:
            start, dash, end = span.partition("-")
            first = _number(start, name, low, high, names)
            last = _number(end, name, low, high, names) if dash else (high if slash else first)
        if first > last:
            raise ScheduleError(f"{name}: {term!r} begins after its end")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, name: str, low: int, high: int, names: dict[str, int]) -> int:
    number = names.get(text.lower(), -1)
    if number < 0 and text.isascii() and text.isdecimal() and len(text) < 5:
        number = int(text)
    if not low <= number <= high:
        raise ScheduleError(f"{name}: {text!r} given; allowed: {low} to {high}")
    return number


# The time that is due.


@dataclass(frozen=True, slots=True)
class Due:
    """The newest time that is due, the time after it, and whether many times were missed."""

    # None: no time is due.
    slot: datetime | None
    following: datetime | None
    has_missed_many: bool = False


def due(schedule: Schedule, zone: tzinfo, since: datetime, now: datetime) -> Due:
    """Considers the times after `since`."""
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
    """The newest time until now, the time after it, and how many times were missed.

    After many missed times, the newest one is searched backwards from now.
    """
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
