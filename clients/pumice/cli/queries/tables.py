"""Tables that fit the terminal: they hide less important columns and shorten names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pumice.cli.terminal import console
from pumice.client.amounts import amount

_NARROWEST_WRAPPED, _NARROWEST_NAME = 24, 16
_UNLIMITED = 10_000
_RULE = "─"
# Spaces at the end of a line, also between colour codes.
_PADDING = re.compile(r" +(?=(?:\x1b\[[0-9;]*m| )*$)")
_LARGE, _MEDIUM = 1000, 10
_UNIT = re.compile(r"(?<=\d)[A-Za-z]+$")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its alignment, and its behaviour on a narrow terminal."""

    title: str
    right: bool = False
    # Long cells are wrapped.
    wraps: bool = False
    # Long cells are shortened in the middle, so that both ends of a name remain.
    shortens: bool = False
    # Columns with a higher rank are hidden first; those with rank 0 never.
    rank: int = 0


def number(title: str, rank: int = 0) -> Column:
    return Column(title, right=True, rank=rank)


class FittedTable:
    """Rows of text under columns, fitted to a width."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[tuple[Text, ...]] = []

    def add_row(self, *cells: str) -> None:
        """Cells are in rich's markup."""
        self._rows.append(tuple(map(Text.from_markup, cells)))

    def fitted(self, out: Console, width: int) -> RenderableType:
        """The table at this width, with a line that names the hidden columns."""
        shown = list(range(len(self._columns)))
        ranked = sorted((i for i in shown if self._columns[i].rank), key=self._rank, reverse=True)
        hidden: list[str] = []
        while ranked and self._narrowest(out, shown) > width:
            index = ranked.pop(0)
            shown.remove(index)
            hidden.append(self._columns[index].title)
        made = self._made(shown, self._name_width(out, shown, width))
        if not hidden:
            return made
        note = f"hidden: {', '.join(reversed(hidden))} (-o json has all)"
        return Group(made, Text(note, style="dim"))

    def _rank(self, index: int) -> tuple[int, int]:
        return self._columns[index].rank, index

    def _narrowest(self, out: Console, shown: Sequence[int]) -> int:
        return self._measure(out, shown).minimum

    def _measure(self, out: Console, shown: Sequence[int]) -> Measurement:
        made = self._made(shown, _NARROWEST_NAME)
        return Measurement.get(out, out.options.update(width=_UNLIMITED), made)

    def _name_width(self, out: Console, shown: Sequence[int], width: int) -> int:
        names = sum(self._columns[index].shortens for index in shown) or 1
        room = width - self._narrowest(out, shown)
        return _NARROWEST_NAME + max(room // names, 0)

    def whole(self) -> Table:
        """The table with all columns and full names."""
        return self._made(range(len(self._columns)), _UNLIMITED)

    def _made(self, shown: Sequence[int], name_width: int) -> Table:
        made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for index in shown:
            column = self._columns[index]
            made.add_column(
                column.title,
                justify="right" if column.right else "left",
                overflow="fold",
                no_wrap=not column.wraps,
                min_width=_NARROWEST_WRAPPED if column.wraps else None,
            )
        columns = [
            _shortened(cells, name_width) if self._columns[index].shortens else cells
            for index, cells in ((index, [row[index] for row in self._rows]) for index in shown)
        ]
        for row in zip(*columns, strict=True):
            made.add_row(*row)
        return made


def _shortened(names: list[Text], width: int) -> list[Text]:
    """Names cut to a width: at the end if the ends are alike, otherwise in the middle."""
    long = [name.plain[::-1] for name in names if len(name) > width]
    letters = zip(*long, strict=False) if len(long) > 1 else ()
    ending = sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, letters))
    cuts_end = all(len(name) - ending < width for name in long) and ending > 0
    tail = 0 if cuts_end else (width - 1) * 2 // 3
    return [
        name
        if len(name) <= width
        else name[: width - 1 - tail] + Text("…") + name[len(name) - tail :]
        for name in names
    ]


def print_table(made: FittedTable) -> None:
    """Prints a table: fitted to a terminal, or complete with one line per row for pipes."""
    out = console()
    if out.is_terminal:
        out.print(made.fitted(out, out.width))
        return
    table = made.whole()
    width = out.width
    out.width = Measurement.get(out, out.options.update(width=_UNLIMITED), table).maximum or 1
    with out.capture() as captured:
        out.print(table, crop=False)
    for line in captured.get().splitlines():
        is_rule = set(line) <= {_RULE}
        out.out(line[:width] if is_rule else _PADDING.sub("", line), highlight=False)


def used_of(used: Mapping[str, int], total: Mapping[str, int], resource: str) -> str:
    """``3/16`` or ``1.5/64Gi``; without a total the used amount; without both a dash."""
    first, second = (_rounded(amount(resource, held.get(resource, 0))) for held in (used, total))
    if not total.get(resource):
        return first if used.get(resource) else "-"
    unit, other = _UNIT.search(first), _UNIT.search(second)
    if unit and other and unit[0] == other[0]:
        first = first.removesuffix(unit[0])
    return f"{first}/{second}"


def _rounded(text: str) -> str:
    """The amount with at most three significant digits after a point."""
    unit = _UNIT.search(text)
    number = float(text.removesuffix(unit[0]) if unit else text)
    digits = 0 if abs(number) >= _LARGE else 1 if abs(number) >= _MEDIUM else 2
    return f"{round(number, digits):.10g}{unit[0] if unit else ''}"


def short_names(resources: Sequence[str]) -> list[str]:
    """Titles of columns: ``gpu`` for ``nvidia.com/gpu``, unless another has the same short name."""
    short = [name.rpartition("/")[2] for name in resources]
    return [
        name if short.count(own) > 1 else own for name, own in zip(resources, short, strict=True)
    ]


def resources_of(*amounts: Mapping[str, int]) -> list[str]:
    """Names of resources: CPU and memory, then the others by name; pods have their own column."""
    names = {name for held in amounts for name in held} - {"pods"}
    first = [name for name in ("cpu", "memory") if name in names]
    return [*first, *sorted(names - set(first))]


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 bind``, ``2 binds``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
