"""Rows of the report: a figure, its target, and Volcano's figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the report: which result and figure it shows, the target, and Volcano's figure."""

    bench: str
    size: str
    # Figures that select one result of the benchmark.
    where: Mapping[str, int | str]
    figure: str
    unit: str
    at_least: float | None = None
    under: float | None = None
    # Volcano's figure on this class of machine; of a range, the better end.
    volcano: float | None = None
    volcano_words: str = ""
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:,g} {self.unit}"
        return f"< {self.under:,g} {self.unit}" if self.under is not None else ""

    @property
    def volcano_text(self) -> str:
        """Volcano's figure as text."""
        if self.volcano is None:
            return ""
        return self.volcano_words or f"{self.volcano:g} {self.unit}"

    def is_reached(self, value: float) -> bool | None:
        if self.at_least is not None:
            return value >= self.at_least
        return value < self.under if self.under is not None else None

    def ratio(self, value: float) -> float | None:
        """The ratio to Volcano's figure; above 1 is better."""
        if self.volcano is None or not value:
            return None
        return value / self.volcano if self.unit in _MORE_IS_BETTER else self.volcano / value


_MORE_IS_BETTER = ("pods/s", "deltas/s", "binds/s", "of the bare rate", "times real time")
_CLIENT = {"client_s": "s at the client"}
_STEADY = {"nodes": 5000, "running": 50_000}
_STEADY_SIZE = "5,000 nodes, 50,000 running pods"
_FULL = {"nodes": 1000, "running": 8000, "arriving": 500}
_FULL_SIZE = "1,000 nodes, 8,000 running pods, 50 new gangs of 10"
_VOLCANO_RANGE = "130 to 252 pods/s"

ROWS: tuple[Row, ...] = (
    Row(
        "allocate",
        "1,000 nodes, 1,000 x 10, 100 classes",
        {"nodes": 1000, "pods": 10_000, "gang_size": 10},
        "pods_per_s",
        "pods/s",
        at_least=50_000,
        volcano=252,
        volcano_words=_VOLCANO_RANGE,
        more=_CLIENT,
    ),
    Row(
        "allocate",
        "5,000 nodes, 1,000 x 10, 100 classes",
        {"nodes": 5000, "pods": 10_000, "gang_size": 10},
        "pods_per_s",
        "pods/s",
        at_least=40_000,
        volcano=252,
        volcano_words=_VOLCANO_RANGE,
        more=_CLIENT,
    ),
    Row(
        "allocate",
        "5,000 nodes, 10,000 single pods",
        {"nodes": 5000, "pods": 10_000, "gang_size": 1},
        "pods_per_s",
        "pods/s",
        at_least=15_000,
        more=_CLIENT,
    ),
    Row(
        "allocate",
        "10,000 nodes, 10,000 x 10",
        {"nodes": 10_000, "pods": 100_000, "gang_size": 10},
        "session_s",
        "s",
        under=10,
        more=_CLIENT,
    ),
    Row(
        "allocate",
        "5,000 nodes, one gang of 10,000",
        {"nodes": 5000, "pods": 10_000, "gang_size": 10_000},
        "session_s",
        "s",
        under=0.5,
        more=_CLIENT,
    ),
    Row(
        "allocate-gpu",
        "1,000 nodes, 1,000 x 10, 100 classes, one GPU per pod",
        {"nodes": 1000, "pods": 10_000, "gang_size": 10},
        "pods_per_s",
        "pods/s",
        at_least=40_000,
    ),
    Row(
        "mixed",
        "1,000 nodes, 300 x 10",
        {"nodes": 1000, "pods": 3000},
        "pods_per_s",
        "pods/s",
        at_least=10_000,
        volcano=144,
    ),
    Row(
        "topology",
        "1,000 nodes in 3 tiers, 200 x 16 with hard tier 1",
        {"nodes": 1000, "pods": 3200, "gang_size": 16},
        "pods_per_s",
        "pods/s",
        at_least=11_000,
        volcano=220,
        volcano_words="140 to 220 pods/s without a topology",
    ),
    Row(
        "sub-groups",
        "1,000 nodes in 3 tiers, 200 x 16 in subgroups of 4 with hard tier 1, the gang with hard tier 2",
        {"nodes": 1000, "pods": 3200, "gang_size": 16},
        "pods_per_s",
        "pods/s",
        at_least=11_000,
        volcano=220,
        volcano_words="140 to 220 pods/s without a topology",
    ),
    Row(
        "vgpu",
        "1,000 nodes with 8 shared GPUs, 1,000 x 10",
        {"nodes": 1000, "pods": 10_000},
        "pods_per_s",
        "pods/s",
        at_least=11_000,
        volcano=220,
        volcano_words="140 to 220 pods/s without devices",
    ),
    Row(
        "numa",
        "1,000 nodes with 2 NUMA nodes, 1,000 x 10",
        {"nodes": 1000, "pods": 10_000},
        "pods_per_s",
        "pods/s",
        at_least=11_000,
        volcano=220,
        volcano_words="140 to 220 pods/s without NUMA",
    ),
    Row("preempt", _FULL_SIZE, _FULL, "session_s", "s", under=0.1, volcano=3.1),
    Row(
        "preempt-half-without-victims",
        f"{_FULL_SIZE}, half of them without victims",
        _FULL,
        "session_s",
        "s",
        under=0.1,
    ),
    Row("reclaim", _FULL_SIZE, _FULL, "session_s", "s", under=0.08, volcano=1.0),
    Row("idle", f"{_STEADY_SIZE}, no change", _STEADY, "median_ms", "ms", under=5),
    Row(
        "heartbeats",
        f"{_STEADY_SIZE}, 500 nodes reported their status",
        _STEADY,
        "median_ms",
        "ms",
        under=8,
        more={"apply_ms": "ms to apply the reports"},
    ),
    Row("churn", f"{_STEADY_SIZE}, one pod changed", _STEADY, "median_ms", "ms", under=10),
    Row("churn-share", f"{_STEADY_SIZE}, 1 % of pods changed", _STEADY, "median_ms", "ms"),
    *(
        Row(
            "unschedulable",
            f"{_STEADY_SIZE}, 1,000 gangs that {words}",
            {**_STEADY, "configuration": name},
            "median_ms",
            "ms",
            under=15,
        )
        for name, words in (
            ("default", "do not fit, Volcano's default configuration"),
            ("evicting", "do not fit, preempt, reclaim, and capacity with a tree of queues"),
            ("packing", "do not fit, binpack and SLA"),
            ("gangs", "do not fit, gangpreempt, gangreclaim, and capacity with a tree of queues"),
            ("quota", "their queue refuses, half of them not admitted, gangpreempt and preempt"),
        )
    ),
    Row(
        "freed",
        f"{_STEADY_SIZE}, 1,000 gangs that do not fit, one node frees up",
        _STEADY,
        "median_ms",
        "ms",
    ),
    Row(
        "snapshot",
        "5,000 nodes, 100,000 pods, with the first session",
        {"nodes": 5000, "pods": 100_000},
        "seconds_with_first_session",
        "s",
        under=3,
    ),
    Row(
        "ingest",
        "5,000 nodes, 50,000 pods, 1,000 changes per message",
        {"nodes": 5000, "pods": 50_000, "deltas_per_message": 1000},
        "deltas_per_s",
        "deltas/s",
        more={"core_cpu_us_per_delta": "µs of CPU time in the core per change"},
    ),
    Row(
        "ingest",
        "5,000 nodes, 50,000 pods, 10 changes per message",
        {"nodes": 5000, "pods": 50_000, "deltas_per_message": 10},
        "deltas_per_s",
        "deltas/s",
        more={"core_cpu_us_per_delta": "µs of CPU time in the core per change"},
    ),
    Row(
        "delay decision",
        "1,000 nodes, 10,000 pods, p99 under a steady load of changes",
        {"nodes": 1000, "pods": 10_000},
        "steady_p99_ms",
        "ms",
        more={"idle_p99_ms": "ms when idle", "flood_p99_ms": "ms at full load"},
    ),
    Row(
        "delay delta",
        "1,000 nodes, 10,000 pods, p99 while sessions place gangs",
        {"nodes": 1000, "pods": 10_000},
        "placing_p99_ms",
        "ms",
        more={"idle_p99_ms": "ms when idle"},
    ),
    Row(
        "delay health",
        "1,000 nodes, 10,000 pods, p99 during a session that places all pods",
        {"nodes": 1000, "pods": 10_000},
        "session_p99_ms",
        "ms",
    ),
    Row(
        "explain",
        "5,000 nodes, 10,000 pending pods, a job during sessions, median",
        {"nodes": 5000, "pending": 10_000},
        "job_median_ms",
        "ms",
        under=50,
        more={
            "job_p99_ms": "ms p99",
            "pod_median_ms": "ms for a pod",
            "pod_p99_ms": "ms p99 for a pod",
        },
    ),
    Row(
        "schedule",
        "5,000 nodes, 50,000 running pods, a gang of 10,000 during sessions",
        {"nodes": 5000, "gang_size": 10_000},
        "worst_s",
        "s",
        under=2,
        more={"best_s": "s in the best run"},
    ),
    Row(
        "portal",
        "100 nodes, 500 running pods, a manifest with a gang of 4, median",
        {"nodes": 100, "running": 500},
        "placed_median_ms",
        "ms",
        under=40,
        more={
            "waiting_median_ms": "ms for a gang that never fits",
            "cpu_ms": "ms of CPU time per request",
            "first_ms": "ms for the first request of a client",
        },
    ),
    Row(
        "portal",
        "100 nodes, 500 running pods, 100 callers at once, until all have an answer",
        {"nodes": 100, "callers": 100},
        "all_at_once_s",
        "s",
        under=2,
        more={"at_once_median_ms": "ms median"},
    ),
    Row(
        "replay",
        "1,000 nodes, 20 pods per second, 3,600 periods",
        {"nodes": 1000, "periods": 3600},
        "times_real_time",
        "times real time",
        at_least=100,
        more={"replay_s": "s in all"},
    ),
    Row(
        "judge",
        "an hour of 1,000 nodes with 20 pods per second under three configurations, two processes",
        {"nodes": 1000, "periods": 3600},
        "judged_s",
        "s",
        under=120,
        more={"cpu_s": "s of CPU time in all", "cpu_s_on_two": "s per CPU on two CPUs"},
    ),
    Row(
        "memory",
        "10,000 nodes, 100,000 pods, 200 classes, recording on, after an hour of arrivals",
        {"nodes": 10_000, "pods": 100_000, "classes": 200},
        "resident_mib",
        "MiB",
        under=500,
        more={
            "growth_mib": "MiB more than after 15 minutes",
            "bytes_per_node": "bytes per node",
            "bytes_per_pod": "bytes per pod",
        },
    ),
    Row(
        "endtoend",
        "1,000 nodes, 300 x 10, a real API server",
        {"nodes": 1000, "pods": 3000},
        "share_of_bare",
        "of the bare rate",
        at_least=0.85,
        volcano=0.125,
        volcano_words="one eighth of the bare rate",
        more={
            "share_of_bare_least": "in the worst pair",
            "share_of_bare_most": "in the best pair",
            "binds_per_second": "binds/s",
            "writes_per_pod": "writes per pod",
        },
    ),
    Row(
        "endtoend",
        "the same, CPU time of adapter and core per bind",
        {"nodes": 1000, "pods": 3000},
        "cpu_ms_per_bind",
        "ms",
        under=0.45,
        more={"api_server_cpu_ms_per_pod": "ms of the API server per pod"},
    ),
    *(
        Row(
            "endtoend arrivals",
            f"1,000 nodes, {rate} pods per second in gangs of 10, from creation to bind",
            {"nodes": 1000, "pods_per_second": rate},
            "p99_ms",
            "ms (p99)",
            under=180 if rate == 100 else None,
            more={"p50_ms": "ms (median)"},
        )
        for rate in (10, 100, 500)
    ),
    Row(
        "endtoend arrivals",
        "the same at 100 pods per second, median",
        {"nodes": 1000, "pods_per_second": 100},
        "p50_ms",
        "ms (median)",
        under=80,
    ),
    Row(
        "controllers",
        "500 nodes, 500 Jobs of 10 pods until all run, a real API server",
        {"nodes": 500, "pods": 5000},
        "times_bare",
        "times the bare writes",
        under=1.3,
        more={
            "times_bare_least": "in the best pair",
            "times_bare_most": "in the worst pair",
            "seconds": "s",
            "writes_per_pod_until_running": "writes per pod",
        },
    ),
)
