"""Pairs of runs on a real API server: one with bare writes, and one with pumice."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from pumice.bench.clusters import Size
from pumice.bench.results import Result

Figures = dict[str, float]


async def run_pair(
    number: int, bare: Callable[[], Awaitable[Figures]], own: Callable[[], Awaitable[Figures]]
) -> tuple[Figures, Figures]:
    """The figures of the bare run and of pumice's run. The order alternates between pairs."""
    if number % 2:
        figures = await own()
        return await bare(), figures
    bare_figures = await bare()
    return bare_figures, await own()


def sizes(size: Size) -> Mapping[str, object]:
    """The figures that are equal for all pairs."""
    return {"nodes": size.nodes, "pods": size.jobs * size.size, **size.background_figures}


def summary(bench: str, size: Size, pairs: Sequence[Result], ranges: Collection[str]) -> Result:
    """The medians of all figures; of some of them also the minimum and maximum."""
    shown = dict(sizes(size))
    for name in pairs[0].figures:
        if name in shown:
            continue
        values = [float(str(pair.figures[name])) for pair in pairs]
        shown[name] = statistics.median(values)
        if name in ranges:
            shown[f"{name}_least"], shown[f"{name}_most"] = min(values), max(values)
    return Result(bench, f"median of {len(pairs)} interleaved pairs", shown)
