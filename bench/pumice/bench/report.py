"""The page about speed, from the output of benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pumice.bench.chart import Chart
from pumice.bench.report_rows import ROWS, Row

Line = Mapping[str, Any]

_HEAD = """\
# Speed

`make bench` measures everything on this page on one machine and writes the page. Only the targets and Volcano's
figures are written by hand. `pumice bench NAME` runs one benchmark, at any size.
"""
_HOW = """\
## Method

- Generated clusters are the same in every run. Nodes have 32 cores and 256 GiB. Pods request about one core and
  1 GiB; the table names the number of task classes. There are four queues of different weights.
- Every cluster has a background, generated from a seed: DNS with required anti-affinity, a web application with
  preferred anti-affinity, a DaemonSet of another scheduler, a Service for one job in ten, disruption budgets, quotas,
  images and annotations of nodes, cordoned and newly registered nodes, GPUs and jobs that request them, and single,
  best-effort and finished pods. The end-to-end benchmarks have DNS, the DaemonSet, the web application, Services and
  budgets, and every node reports its status every ten seconds. `--background none` omits the background.
- The *bare rate* is the rate of a client that only posts bindings. It has as many connections as the adapter, the same
  HTTP client and event loop, and the same background; node reports have their own connections and the same rate in both
  runs. Every second pair begins with the scheduler. The bare client's connections are open before its run begins; the
  scheduler is started for each run and opens its own. `cpu_share_of_bare` in the output is the same ratio of CPU times:
  of all processes, with the control plane, from the first to the last bind.
- The *bare writes* of Jobs are the writes that any controller needs until all Jobs run: Jobs, PodGroups with two phases,
  pods, bindings, the status of running pods, and the phase Running. One client writes them and waits for no watch.
- *Inside the engine* means one process with cold caches, and the session alone, without generation of the cluster and
  without the stream. Sessions of up to 20,000 pods are measured three times, each on a fresh engine; the table shows the
  best time, and the output also has the median. Sessions with few or no changes run one after the other on one engine;
  the table shows the median, and no session is skipped.
- *At the client* means a core in a separate process, from the last acknowledged delta to the last received decision;
  the best of three runs, after the runs inside the engine. The snapshot is the better of two runs.
- Memory is the resident set of the core process. The cost of a pod is the difference from a core with a quarter of the
  pods, divided by the difference in pods. The cost of a node is the difference between that core and one with half the
  nodes, divided by the difference in nodes.
- The last column is `machine_speed`, the number of million additions per second in plain Python, measured just after the
  result. It shows how busy the machine was; with it, times of different days can be compared roughly.
- Volcano's figures are for one session in process on this class of machine; end to end, they are for a real API server.
  Where they are a range, the ratio refers to its better end.
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
    """Decodes the lines that are results; skips other lines."""
    return [json.loads(text) for text in printed if text.startswith('{"bench"')]


def _page(lines: Sequence[Line], date: str, charts: Mapping[str, Chart]) -> str:
    parts = [_HEAD, _machine(lines, date), _table(lines), "## Growth\n"]
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
    head = (
        "benchmark",
        "size",
        "figure",
        "further figures",
        "target",
        "reached",
        "Volcano",
        "ratio",
        "speed",
    )
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    rows += ["| " + " | ".join(_cells(row, lines)) + " |" for row in ROWS]
    return "\n".join([*rows, ""])


def summary(printed: Iterable[str]) -> str:
    """The rows with a target as a table for a terminal, and the number of targets reached."""
    lines = read_lines(printed)
    rows = [("benchmark", "size", "target", "figure", "reached", "machine_speed")]
    for row in ROWS:
        bench, size, figure, _, target, reached, _, _, speed = _cells(row, lines)
        if target:
            rows.append((bench, size, target, figure, reached, speed))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]
    reached_count = sum(cells[4] == "yes" for cells in rows)
    return "\n".join([*shown, f"{reached_count} of {len(rows) - 1} targets reached"])


def _cells(row: Row, lines: Sequence[Line]) -> list[str]:
    start, line = [row.bench, row.size], found(row, lines)
    if line is None:
        return [*start, "not measured", "", row.target, "", row.volcano_text, "", ""]
    value = float(line[row.figure])
    beside = ", ".join(
        f"{_number(line[key])} {unit}" for key, unit in row.more.items() if key in line
    )
    reached = {True: "yes", False: "no", None: ""}[row.is_reached(value)]
    ratio = row.ratio(value)
    shown = "" if ratio is None else f"{_number(ratio)}x"
    figure, speed = f"{_number(value)} {row.unit}", f"{line['machine_speed']:g}"
    return [*start, figure, beside, row.target, reached, row.volcano_text, shown, speed]


def found(row: Row, lines: Sequence[Line]) -> Line | None:
    """The last result of a row."""
    held = [
        line
        for line in lines
        if line["bench"] == row.bench
        and all(line.get(key) == value for key, value in row.where.items())
    ]
    # A result with the client's measurements is preferred.
    with_more = [line for line in held if all(key in line for key in row.more)]
    return next(reversed(with_more or held), None)


def _number(value: Any) -> str:
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _charts(lines: Sequence[Line]) -> dict[str, Chart]:
    gangs = [line for line in _of("allocate", lines) if line["gang_size"] == 10]
    return {
        "allocate-nodes": Chart(
            "allocate: 10,000 pods in gangs of 10, by number of nodes",
            "nodes",
            "session time in seconds",
            _points((line for line in gangs if line["pods"] == 10_000), "nodes", "session_s"),
        ),
        "allocate-pods": Chart(
            "allocate: gangs of 10 on 5,000 nodes, by number of pods",
            "pods",
            "session time in seconds",
            _points((line for line in gangs if line["nodes"] == 5000), "pods", "session_s"),
        ),
        "idle-pods": Chart(
            "idle: a session without changes, 5,000 nodes",
            "running pods",
            "milliseconds; dashed: the target",
            _points(_of("idle", lines, nodes=5000), "running", "median_ms"),
            target=5,
        ),
        "snapshot-pods": Chart(
            "snapshot: 5,000 nodes and their pods, with the first session",
            "pods",
            "seconds; dashed: the target for 100,000 pods",
            _points(_of("snapshot", lines, nodes=5000), "pods", "seconds_with_first_session"),
            target=3,
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
