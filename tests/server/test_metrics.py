"""Metrics: the page lists them all, two clusters never mix, and they go with their cluster."""

import asyncio
import itertools
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pumice.core import kernel
from pumice.core.decisions import PluginFault, SessionResult
from pumice.server.cluster_figures import FAMILIES
from pumice.server.core_environment import CoreEnvironment
from pumice.server.metrics import MAX_JOB_SERIES, BindTimes, BulkHistogram, Metrics
from pumice.server.server import CoreServer, ServerOptions
from pumice.server.wire.times import timestamp
from tests.adapters.fake_clock import until
from tests.server.running import (
    ManualClock,
    RunningCore,
    configuration,
    gang,
    group,
    node,
    pod,
    queue,
)

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"
ADAPTER_PAGE = PAGE.with_name("adapter.md")
ABSENT = {
    "volcano_open_session_duration_milliseconds",
    "volcano_scheduling_stage_duration_milliseconds",
    "volcano_job_retry_counts",
    "volcano_namespace_share",
    "volcano_namespace_weight",
    "volcano_namespace_weighted_share",
    "volcano_goroutines",
}
_SCALES = ("milli_cpu", "memory_bytes", "scalar_resources")
_AMOUNTS = ("allocated", "request", "deserved", "capacity", "real_capacity", "inqueue")
VOLCANO = ABSENT | {
    "volcano_e2e_scheduling_latency_milliseconds",
    "volcano_plugin_scheduling_latency_milliseconds",
    "volcano_action_scheduling_latency_milliseconds",
    "volcano_e2e_job_scheduling_latency_milliseconds",
    "volcano_e2e_job_scheduling_duration",
    "volcano_e2e_job_scheduling_start_time",
    "volcano_e2e_job_scheduling_last_time",
    "volcano_task_scheduling_latency_milliseconds",
    "volcano_schedule_attempts_total",
    "volcano_pod_preemption_victims",
    "volcano_total_preemption_attempts",
    "volcano_eviction_transactions_total",
    "volcano_unschedule_task_count",
    "volcano_unschedule_job_count",
    "volcano_job_share",
    "volcano_queue_share",
    "volcano_queue_weight",
    "volcano_queue_overused",
    *(f"volcano_queue_{amount}_{scale}" for amount in _AMOUNTS for scale in _SCALES),
}


def described() -> dict[str, tuple[str, str, str]]:
    """Type, labels and help text of every own series, by name."""
    found = {}
    metrics = Metrics()
    for collector, _ in metrics.registry._collector_to_names.items():
        for family in collector.describe() if hasattr(collector, "describe") else ():
            if not family.name.startswith(("pumice_", "volcano_")):
                continue
            own = getattr(collector, "_labelnames", None) or ()
            labels: tuple[str, ...] = getattr(family, "_labelnames", None) or own
            name = f"{family.name}_total" if family.type == "counter" else family.name
            shown = ", ".join(f"`{label}`" for label in labels) or "none"
            found[name] = (family.type, shown, family.documentation)
    for name, text, labels in FAMILIES:
        found[name] = ("gauge", ", ".join(f"`{label}`" for label in labels), text)
    return found


def table(prefix: str) -> str:
    rows = [
        f"| `{name}` | {kind} | {labels} | {text} |"
        for name, (kind, labels, text) in sorted(described().items())
        if name.startswith(prefix)
    ]
    return "\n".join(["| name | type | labels | meaning |", "|---|---|---|---|", *rows])


def test_the_page_lists_every_series(rewrite: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for prefix in ("volcano_", "pumice_"):
        begin, end = f"<!-- begin {prefix} -->\n", f"\n<!-- end {prefix} -->"
        head, _, rest = text.partition(begin)
        shown, _, tail = rest.partition(end)
        if rewrite:
            text = f"{head}{begin}{table(prefix)}{end}{tail}"
        else:
            assert shown == table(prefix)
    if rewrite:
        PAGE.write_text(text, encoding="utf-8")


def test_every_series_of_volcano_is_served_or_named_as_absent() -> None:
    assert len(VOLCANO) == 43
    served = {name for name in described() if name.startswith("volcano_")}
    assert served == VOLCANO - ABSENT
    text = PAGE.read_text(encoding="utf-8")
    absent = text.partition("## Volcano's series that are absent")[2]
    for name in ABSENT:
        assert f"`{name}`" in absent


async def scraped(core: RunningCore) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    from prometheus_client import generate_latest

    text = await asyncio.to_thread(generate_latest, core.env.metrics.registry)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def at(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


async def test_two_clusters_have_their_own_series(core: RunningCore) -> None:
    first = await core.served(
        [queue(), node("n1"), *gang("a", 2), *gang("b", 9)], configuration(), cluster="c1"
    )
    await first.decisions()
    second = await core.served([queue(), node("n1"), node("n2"), *gang("a", 3)], cluster="c2")
    await second.decisions()
    for name in ("c1", "c2"):
        await core.session(1, name)
    found = await scraped(core)
    assert found[at("volcano_unschedule_job_count", cluster="c1")] == 1
    assert found[at("volcano_unschedule_job_count", cluster="c2")] == 0
    assert found[at("volcano_unschedule_task_count", job_id="b", cluster="c1")] == 9
    allocated = "volcano_queue_allocated_milli_cpu"
    assert found[at(allocated, queue_name="default", cluster="c1")] == 2000
    assert found[at(allocated, queue_name="default", cluster="c2")] == 3000
    assert found[at("volcano_queue_weight", queue_name="default", cluster="c1")] == 1
    sessions = "volcano_e2e_scheduling_latency_milliseconds_count"
    assert found[at(sessions, cluster="c1")] == found[at(sessions, cluster="c2")] == 1
    assert found[at("volcano_schedule_attempts_total", result="scheduled", cluster="c2")] == 3
    share = at("volcano_job_share", job_ns="team", job_id="a", cluster="c1")
    assert found[share] == 0.5
    assert found[at("process_cpu_seconds_total")] > 0
    assert found[at("pumice_compiled_kernel")] == int(kernel.rows is not None)
    assert found[at("pumice_last_session_timestamp_seconds", cluster="c1")] == 1_800_000_000


async def test_actions_and_plugins_are_measured(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("a", 2)])
    await adapter.decisions()
    await core.session(1, "c1")
    found = await scraped(core)
    actions = "volcano_action_scheduling_latency_milliseconds_count"
    assert found[at(actions, action="allocate", cluster="c1")] == 1
    assert at(actions, action="open", cluster="c1") not in found
    plugins = "volcano_plugin_scheduling_latency_milliseconds_count"
    opened = at(plugins, plugin="gang", OnSession="OnSessionOpen", cluster="c1")
    assert found[opened] == 1
    for name in ("pumice_plugin_seconds_total", "pumice_plugin_calls_total"):
        assert at(name, plugin="gang", action="open", cluster="c1") in found


def test_faults_are_counted_by_plugin() -> None:
    metrics = Metrics()
    fault = PluginFault("zones", "row_score", "", "ValueError: no", "zones.py", 12)
    metrics.record_session("c1", SessionResult(1, 0, faults=(fault, fault)), 0, {}, {})
    assert metrics.faults.labels("zones", "c1")._value.get() == 2


async def test_figures_end_with_the_adapter_because_another_core_may_have_the_cluster(
    core: RunningCore,
) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("a", 2)])
    await adapter.decisions()
    weight = at("volcano_queue_weight", queue_name="default", cluster="c1")
    assert weight in await scraped(core)
    adapter.cut()
    streams = core.env.metrics.streams.labels("c1")
    await until(lambda: streams._value.get() == 0)
    await until(lambda: core.env.metrics.paused.labels("no_adapter", "c1")._value.get() == 1)
    found = await scraped(core)
    assert weight not in found
    assert found[at("pumice_binds_total", cluster="c1")] == 2


def alerts(page: Path) -> list[str]:
    """The expressions in the table of alerts of a page."""
    _, _, rest = page.read_text(encoding="utf-8").partition("| alert | expression |\n|---|---|\n")
    rows = itertools.takewhile(lambda line: line.startswith("|"), rest.splitlines())
    return [row.split("|", 2)[2].strip(" |`") for row in rows]


@pytest.mark.parametrize("page", [PAGE, ADAPTER_PAGE], ids=lambda page: page.stem)
def test_alerts_are_about_series_that_are_served(page: Path) -> None:
    expressions = alerts(page)
    assert len(expressions) >= 5
    served = set(re.findall(r"^\| `(\w+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE))
    for expression in expressions:
        used = set(re.findall(r"pumice_\w+", expression))
        assert used
        assert used <= served


async def test_latencies_count_from_the_creation_of_pods_and_groups(core: RunningCore) -> None:
    seconds_ago = 1_800_000_000 * 1_000_000_000 - 4_000_000_000
    objects = [
        group("a", 1, creation_time=timestamp(seconds_ago - 1_000_000_000)),
        pod("a", 0, creation_time=timestamp(seconds_ago)),
    ]
    adapter = await core.served([queue(), node("n1"), *objects])
    await adapter.decisions()
    await core.session(1)
    found = await scraped(core)
    task = "volcano_task_scheduling_latency_milliseconds_sum"
    assert found[at(task, stage="Assumed", cluster="c1")] == 4000
    assert found[at("volcano_e2e_job_scheduling_latency_milliseconds_sum", cluster="c1")] == 5000
    labels = {"job_name": "a", "queue": "default", "job_namespace": "team", "cluster": "c1"}
    assert found[at("volcano_e2e_job_scheduling_duration", **labels)] == 5000


def test_series_of_a_cluster_are_removed_with_it() -> None:
    metrics = Metrics()
    metrics.sessions.labels("c1").inc()
    metrics.sessions.labels("c2").inc()
    metrics.task_latency.observe(("Assumed", "c1"), [1.0])
    metrics.forget("c1")
    samples = [s for family in metrics.registry.collect() for s in family.samples]
    assert not [s for s in samples if s.labels.get("cluster") == "c1"]
    assert [s for s in samples if s.labels.get("cluster") == "c2"]


def test_a_histogram_takes_many_values_at_once() -> None:
    histogram = BulkHistogram("x", "text", ("cluster",), (1.0, 2.0, 4.0))
    histogram.observe(("c1",), [0.5, 1.0, 3.0, 9.0])
    histogram.observe(("c1",), [])
    (family,) = histogram.collect()
    counts = {s.labels["le"]: s.value for s in family.samples if s.name == "x_bucket"}
    assert counts == {"1.0": 2, "2.0": 2, "4.0": 3, "+Inf": 4}


def test_bind_times_are_limited_and_the_oldest_goes_first() -> None:
    times = BindTimes()
    times.bound((str(number) for number in range(MAX_JOB_SERIES)), 1)
    times.bound(["0", "new"], 2)
    assert len(times.last_ns) == MAX_JOB_SERIES
    assert times.last_ns["0"] == 2
    assert "1" not in times.last_ns


async def test_jobs_beyond_the_limit_are_counted(
    core: RunningCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.server.cluster_figures.MAX_JOB_SERIES", 2)
    waiting = [one for number in range(5) for one in gang(f"w{number}", 9)]
    adapter = await core.served([queue(), node("n1"), *waiting])
    await adapter.next("status_batch")
    await core.session(1)
    found = await scraped(core)
    assert found[at("pumice_jobs_without_series", cluster="c1")] == 3
    assert len([key for key in found if key[0] == "volcano_unschedule_task_count"]) == 2


@pytest.mark.parametrize(
    ("rows", "said"), [(object(), "is in use"), (None, "is not available; sessions are slower")]
)
async def test_a_core_says_at_its_start_whether_the_kernel_is_in_use(
    socket_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rows: object,
    said: str,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(kernel, "rows", rows)
    server = CoreServer(ServerOptions(f"unix:{socket_folder}/s"))
    await server.start()
    await server.stop()
    assert f"compiled kernel {said}" in caplog.text


async def test_probes_and_metrics_are_pages(socket_folder: Path) -> None:
    env = CoreEnvironment(clock=ManualClock())
    server = CoreServer(
        ServerOptions(f"unix:{socket_folder}/s", http_address="127.0.0.1:0", env=env)
    )
    await server.start()

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{server.http_address}{path}") as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert await asyncio.to_thread(get, "/livez") == (200, "ok\n")
    assert await asyncio.to_thread(get, "/readyz") == (200, "ok\n")
    assert "pumice_compiled_kernel" in (await asyncio.to_thread(get, "/metrics"))[1]
    assert (await asyncio.to_thread(get, "/other"))[0] == 404
    assert server._pages is not None
    server._pages.is_ready = False
    assert (await asyncio.to_thread(get, "/readyz"))[0] == 503
    await server.stop()
