"""Schedules: five fields of cron, words such as @hourly, and @every with a duration.

A day must match both the field of days of the month and that of days of the week; when neither of
them is a star (a star with a step is none), one of the two is enough. Times that a change to summer
time skips do not happen.
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
# Lowest and highest number of each field, and its names.
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_NANOSECONDS: Final = 1_000_000_000
# A schedule such as 30 February never happens.
MOST_YEARS: Final = 5


class ScheduleError(ValueError):
    """A schedule that cannot be read."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Sets of minutes, hours, days and months; or the seconds between two times."""

    fields: tuple[frozenset[int], ...] = ()
    has_day_stars: tuple[bool, bool] = (True, True)
    every_seconds: int = 0

    def after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """The first time after a moment; None when there is none within five years."""
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
        """The next local time that may match; None when this one does."""
        minutes, hours, _, months, _ = self.fields
        midnight = local.replace(hour=0, minute=0, fold=0)
        if local.month not in months:
            first = midnight.replace(day=1)
            return (first + timedelta(days=32)).replace(day=1)
        if not self._is_day(local):
            return midnight + timedelta(days=1)
        if local.hour not in hours:
            # An hour that is there twice is passed in absolute time.
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
    """Raises ScheduleError."""
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
