"""Tables and ages in the form of vcctl."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import click

from pumice.controllers.runtime.objects import Manifest

NONE_FOUND: Final = "No resources found"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], widths: Sequence[int]
) -> None:
    """Prints columns of fixed widths, aligned left."""
    for row in (header, *rows):
        click.echo("".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)))


def print_objects(
    header: Sequence[str],
    objects: Sequence[Manifest],
    row: Callable[[Manifest], Sequence[object]],
    space: int,
    header_space: int,
    *,
    has_namespaces: bool = False,
) -> None:
    """Prints a row for each object, with its namespace if there may be several; or that there is none."""
    if not objects:
        click.echo(NONE_FOUND)
        return
    rows = [row(one) for one in objects]
    if has_namespaces:
        header = ("Namespace", *header)
        pairs = zip(objects, rows, strict=True)
        rows = [[one["metadata"]["namespace"], *cells] for one, cells in pairs]
    print_table(header, rows, widths_of(header, rows, space, header_space))


def widths_of(
    header: Sequence[str], rows: Iterable[Sequence[object]], space: int, header_space: int
) -> list[int]:
    """The widths of columns with space after the widest cell of each."""
    widths = [len(title) + header_space for title in header]
    for row in rows:
        widths = [
            max(width, len(str(cell)) + space) for width, cell in zip(widths, row, strict=True)
        ]
    return widths


def local_time(timestamp: str | None) -> str:
    """A time of the API server in the time zone of this machine, in the form of vcctl."""
    if not timestamp:
        return "0001-01-01 00:00:00 +0000 UTC"
    return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S %z %Z")


def age(timestamp: str | None, now: datetime | None = None) -> str:
    """The time since a timestamp, as kubectl shows it."""
    if not timestamp:
        return "<unknown>"
    elapsed = (now or datetime.now(UTC)) - datetime.fromisoformat(timestamp)
    return shown_duration(elapsed.total_seconds())


def shown_duration(elapsed: float) -> str:
    """A duration with two units if the number of the larger one is small, else with one unit."""
    seconds = int(elapsed)
    if seconds < 0:
        return "0s" if seconds > -2 else "<invalid>"
    for limit, unit, word, lower, lower_word in (
        (2 * _MINUTE, 1, "s", 0, ""),
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    ):
        if seconds < limit:
            rest = (seconds % unit) // lower if lower else 0
            return f"{seconds // unit}{word}" + (f"{rest}{lower_word}" if rest else "")
    return f"{seconds // _YEAR}y"
