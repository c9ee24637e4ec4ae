"""What tables of commands have in common: amounts and bars as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table

_GIB, _MIB = 2**30, 2**20


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def amount(resource: str, value: int) -> str:
    """An amount of the wire: cpu and extended resources are in thousandths."""
    if resource == "memory":
        return f"{value / _GIB:.1f}Gi" if abs(value) >= _GIB else f"{value / _MIB:.0f}Mi"
    if resource == "cpu" or "/" in resource:
        return f"{value / 1000:g}"
    return str(value)


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
