"""What tables of commands have in common: amounts and bars as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rich import box
from rich.measure import Measurement
from rich.table import Table

from pumice.cli.terminal import console
from pumice.client.amounts import amount

# Of a column that breaks its lines, and of any table.
_NARROWEST, _WIDEST = 24, 10_000
_RULE = "─"
# Spaces at the end of a line, be they in colour.
_PADDING = re.compile(r" +(?=(?:\x1b\[[0-9;]*m| )*$)")


def table(*columns: str, right: tuple[str, ...] = (), wide: str = "") -> Table:
    """Only the wide column breaks its lines; in the others a name stays one that can be copied."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column != wide,
            min_width=_NARROWEST if column == wide else None,
        )
    return made


def print_table(made: Table) -> None:
    """Fitted to the terminal; one line a row where it is too narrow for that, and for pipes."""
    out = console()
    width = out.width
    size = Measurement.get(out, out.options.update(width=_WIDEST), made)
    if out.is_terminal and size.minimum <= width:
        out.print(made)
        return
    out.width = max(size.maximum, 1)
    with out.capture() as captured:
        out.print(made, crop=False)
    for line in captured.get().splitlines():
        is_rule = set(line) <= {_RULE}
        out.out(line[:width] if is_rule else _PADDING.sub("", line), highlight=False)


def used_of(held: Mapping[str, int], whole: Mapping[str, int], resource: str) -> str:
    """``3/16``, or a dash where there is none."""
    if not whole.get(resource) and not held.get(resource):
        return "-"
    return f"{amount(resource, held.get(resource, 0))}/{amount(resource, whole.get(resource, 0))}"


def resources_of(*amounts: Mapping[str, int]) -> list[str]:
    """Cpu and memory first, then the others by name; pods are counted elsewhere."""
    names = {name for held in amounts for name in held} - {"pods"}
    first = [name for name in ("cpu", "memory") if name in names]
    return [*first, *sorted(names - set(first))]
