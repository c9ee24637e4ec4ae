"""The page about speed, from the output of benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pumice.bench.bars import ROWS, Row
from pumice.bench.chart import Chart

Line = Mapping[str, Any]

_HEAD = """\
# Speed

`make bench` measures everything on this page on one machine and writes the page; nothing in it is typed
by hand but the bars and Volcano's figures. `pumice bench NAME` measures one of them, at any size.
"""
_HOW = """\
## How it is measured

- Clusters are made from numbers, the same ones in every run. Nodes have 32 cores and 256 GiB; pods ask
  for about one core and 1 GiB and come in as many classes as said; there are four queues of different weight.
- Every cluster has a background, made from a seed: Services, of which one in ten jobs has one, DNS with
  required anti-affinity, a web application with preferred anti-affinity, a DaemonSet of another scheduler,
  disruption budgets, quotas, images and annotations of nodes, cordoned and just registered nodes, GPUs and
  jobs that ask for them, and single, best-effort and finished pods. End to end, the API server holds Services,
  DNS, the DaemonSet, the web application and budgets, and every node reports its status every ten seconds.
  `--background none` leaves it out.
- The *bare rate* is that of a client which only posts bindings, over as many connections as the adapter has and
  with the same HTTP client and event loop, beside the same background: the reports of nodes have connections of their own and
  go on at the same pace in both runs. Every second pair begins with the scheduler. The bare client's connections
  are open when it begins; the scheduler is started for each run, so it opens its own. `cpu_share_of_bare` in the output is
  the same share by the CPU time of all processes, control plane included, from the first to the last bind.
- The *bare writes* of Jobs are what must be written until all of them run, whoever writes it: Jobs, PodGroups with
  two phases, pods, bindings, running pods, and the phase Running. One client writes them without any watch to wait for.
- *Inside the engine* means one process, caches cold, the session alone: neither making the cluster nor
  the stream counts. Sessions up to 20,000 pods are measured three times, each on a fresh engine, and
  the best is shown; each line that is printed has the median as well. Sessions of a cluster at rest run
  one after the other on one engine, and the median is shown; none of them is skipped.
- *At the client* means a core in a process of its own: from the last delta acknowledged to the last
  decision received, again the best of three. It is measured after the other, never beside it. The
  snapshot is the better of two.
- Memory is the resident set of the core process. What a pod costs is the difference to a core with a
  quarter of the pods, divided by the pods it had less; what a node costs is the difference between that
  core and one with half its nodes, divided by the nodes it had less.
- `machine_speed`, the last column, is how many million additions a second plain Python made just after a
  result: it says how busy the machine was. By it times of different days can be compared, roughly.
- Volcano's figures are of one session in process on this class of machine, end to end against a real API
  server; where they are a range, the ratio is to its better end.
"""


def write_report(printed: Iterable[str], date: str, into: Path) -> Path:
    """Writes the page and its plots; returns the page."""
    lines = read_lines(printed)
    plots = into / "speed"
    plots.mkdir(parents=True, exist_ok=True)
    charts = _charts(lines)
    for name, chart in charts.items():
        (plots / f"{name}.svg").write_text(chart.svg(), encoding="utf-8")
    page = into / "speed.md"
    page.write_text(_page(lines, date, charts), encoding="utf-8")
    return page


def read_lines(printed: Iterable[str]) -> list[Line]:
    """The results among the lines; other lines are skipped."""
    return [json.loads(text) for text in printed if text.startswith('{"bench"')]


def _page(lines: Sequence[Line], date: str, charts: Mapping[str, Chart]) -> str:
    parts = [_HEAD, _machine(lines, date), _table(lines), "## How it grows\n"]
    for name, chart in charts.items():
        parts.append(f"![{chart.title}](speed/{name}.svg)\n")
    return "\n".join([*parts, _HOW])


def _machine(lines: Sequence[Line], date: str) -> str:
    def seen(name: str) -> str:
        return ", ".join(sorted({str(line[name]) for line in lines}))

    speeds = [float(line["machine_speed"]) for line in lines]
    slowest, fastest = min(speeds, default=0), max(speeds, default=0)
    return (
        f"Measured on {date}: {seen('cores')} cores, Python {seen('python')}, NumPy {seen('numpy')}, "
        f"kernel: {seen('kernel')}, `machine_speed` {slowest:g} to {fastest:g}.\n"
    )


def _table(lines: Sequence[Line]) -> str:
    head = ("bench", "size", "figure", "beside it", "bar", "reached", "Volcano", "ratio", "speed")
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    rows += ["| " + " | ".join(_cells(row, lines)) + " |" for row in ROWS]
    return "\n".join([*rows, ""])


def summary(printed: Iterable[str]) -> str:
    """The rows with a bar as a table for terminals, and how many bars were reached."""
    lines = read_lines(printed)
    rows = [("bench", "size", "bar", "figure", "reached", "machine_speed")]
    for row in ROWS:
        bench, size, figure, _, bar, reached, _, _, speed = _cells(row, lines)
        if bar:
            rows.append((bench, size, bar, figure, reached, speed))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]
    reached_count = sum(cells[4] == "yes" for cells in rows)
    return "\n".join([*shown, f"{reached_count} of {len(rows) - 1} bars reached"])


def _cells(row: Row, lines: Sequence[Line]) -> list[str]:
    start, line = [row.bench, row.size], found(row, lines)
    if line is None:
        return [*start, "not measured", "", row.bar, "", row.known, "", ""]
    value = float(line[row.figure])
    beside = ", ".join(
        f"{_number(line[key])} {unit}" for key, unit in row.more.items() if key in line
    )
    reached = {True: "yes", False: "no", None: ""}[row.is_reached(value)]
    ratio = row.ratio(value)
    shown = "" if ratio is None else f"{_number(ratio)}x"
    figure, speed = f"{_number(value)} {row.unit}", f"{line['machine_speed']:g}"
    return [*start, figure, beside, row.bar, reached, row.known, shown, speed]


def found(row: Row, lines: Sequence[Line]) -> Line | None:
    """The last result of a row."""
    held = [
        line
        for line in lines
        if line["bench"] == row.bench
        and all(line.get(key) == value for key, value in row.where.items())
    ]
    # A result with the client's view is preferred.
    with_more = [line for line in held if all(key in line for key in row.more)]
    return next(reversed(with_more or held), None)


def _number(value: Any) -> str:
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _charts(lines: Sequence[Line]) -> dict[str, Chart]:
    gangs = [line for line in _of("allocate", lines) if line["gang_size"] == 10]
    return {
        "allocate-nodes": Chart(
            "allocate: 10,000 pods in gangs of 10, on more and more nodes",
            "nodes",
            "seconds of the session",
            _points((line for line in gangs if line["pods"] == 10_000), "nodes", "session_s"),
        ),
        "allocate-pods": Chart(
            "allocate: more and more pods in gangs of 10, on 5,000 nodes",
            "pods",
            "seconds of the session",
            _points((line for line in gangs if line["nodes"] == 5000), "pods", "session_s"),
        ),
        "idle-pods": Chart(
            "idle: a session in which nothing changed, 5,000 nodes",
            "running pods",
            "milliseconds; dashed: the bar",
            _points(_of("idle", lines, nodes=5000), "running", "median_ms"),
            bar=5,
        ),
        "snapshot-pods": Chart(
            "snapshot: a stream of 5,000 nodes and pods, with the first session",
            "pods",
            "seconds; dashed: the bar for 100,000 pods",
            _points(_of("snapshot", lines, nodes=5000), "pods", "seconds_with_first_session"),
            bar=3,
        ),
    }


def _of(bench: str, lines: Sequence[Line], **where: int) -> list[Line]:
    return [
        line
        for line in lines
        if line["bench"] == bench and all(line[key] == value for key, value in where.items())
    ]


def _points(lines: Iterable[Line], across: str, upwards: str) -> list[tuple[float, float]]:
    """One point for each size, from the last result."""
    held = {float(line[across]): float(line[upwards]) for line in lines}
    return sorted(held.items())
