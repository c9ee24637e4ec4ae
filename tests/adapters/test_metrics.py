"""The series of an adapter: declared, exact and described; and the checks that feed the probes."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import pumice.adapters
from pumice.adapters.runtime.health import Health, Probe
from pumice.adapters.runtime.metric_definitions import (
    ADAPTER_SERIES,
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    Series,
)
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.metric_definitions import (
    CONTROLLER_COUNTERS,
    CONTROLLER_GAUGES,
    CONTROLLER_HISTOGRAMS,
    CONTROLLER_SERIES,
)

PAGES = Path(__file__).parents[2] / "docs/reference"
DECLARED = {
    "count": {name: labels for name, (_, labels) in (COUNTERS | CONTROLLER_COUNTERS).items()},
    "gauge": {name: labels for name, (_, labels) in (GAUGES | CONTROLLER_GAUGES).items()},
    "observe": {
        name: labels for name, (_, labels, _) in (HISTOGRAMS | CONTROLLER_HISTOGRAMS).items()
    },
}


def uses() -> Iterator[tuple[str, str, str, set[str]]]:
    """File, method, name and labels of every call that changes a series."""
    root = Path(pumice.adapters.__file__).parents[1]
    for path in root.rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Attribute):
                continue
            owner = ast.unparse(found.func.value)
            if found.func.attr in DECLARED and owner.endswith("metrics") and found.args:
                name = found.args[0]
                if isinstance(name, ast.Constant):
                    labels = {keyword.arg or "" for keyword in found.keywords}
                    yield str(path.relative_to(root)), found.func.attr, str(name.value), labels


def test_every_series_is_declared_with_its_labels() -> None:
    found = list(uses())
    assert len(found) > 40
    for file, method, name, labels in found:
        assert name in DECLARED[method], f"{file}: {name} is not declared"
        assert set(DECLARED[method][name]) == labels, f"{file}: labels of {name}"


def described(series: Series) -> str:
    """The table of a page."""
    rows = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    counters = {f"{name}_total": ("counter", *found) for name, found in series.counters.items()}
    gauges = {name: ("gauge", *found) for name, found in series.gauges.items()}
    histograms = {name: ("histogram", *found[:2]) for name, found in series.histograms.items()}
    for name, (kind, text, labels) in sorted((counters | gauges | histograms).items()):
        shown = ", ".join(f"`{label}`" for label in labels)
        rows.append(f"| `{series.prefix}{name}` | {kind} | {shown} | {text} |")
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("name", "series"), [("adapter", ADAPTER_SERIES), ("controllers", CONTROLLER_SERIES)]
)
def test_the_page_has_every_series(
    request: pytest.FixtureRequest, name: str, series: Series
) -> None:
    page = PAGES / f"{name}.md"
    head, begin, rest = page.read_text().partition("<!-- begin metrics -->\n")
    held, end, tail = rest.partition("<!-- end metrics -->")
    table = f"{described(series)}\n"
    if request.config.getoption("--rewrite"):
        page.write_text(f"{head}{begin}{table}{end}{tail}")
    assert held == table, "pytest --rewrite writes the table"


def test_large_values_are_exact_and_every_series_has_a_help_text() -> None:
    metrics = Metrics()
    metrics.count("ops", 1_234_567)
    metrics.gauge("leads", 1)
    metrics.observe("apply_duration_seconds", 0.3, verb="bind", code="applied")
    families = {f.name: f for f in text_string_to_metric_families(metrics.render().decode())}
    ops = families["pumice_adapter_ops"]
    assert {s.value for s in ops.samples if s.name.endswith("_total")} == {1_234_567.0}
    assert all(family.documentation for family in families.values())
    assert len(families) >= len(COUNTERS) + len(GAUGES) + len(HISTOGRAMS)
    assert families["pumice_adapter_apply_duration_seconds"].type == "histogram"
    assert metrics.observed("apply_duration_seconds", verb="bind") == 1


def test_sums_are_made_over_labels() -> None:
    metrics = Metrics()
    metrics.count("outcomes", 2, verb="bind", code="applied")
    metrics.count("outcomes", verb="evict", code="applied")
    assert metrics.counted("outcomes") == 3
    assert metrics.counted("outcomes", verb="bind") == 2
    assert metrics.by_label("outcomes", "verb") == {"bind": 2, "evict": 1}


def test_a_name_that_is_not_declared_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().count("invented")


def test_a_gauge_can_read_its_value_when_it_is_asked() -> None:
    metrics, queue = Metrics(), [1, 2, 3]
    metrics.gauge_from("watch_queue_length", lambda: len(queue))
    queue.pop()
    assert "pumice_adapter_watch_queue_length 2.0" in metrics.render().decode()


def test_checks_are_run_by_probe_and_shown_as_gauges() -> None:
    metrics = Metrics()
    health = Health(metrics)
    health.add("watches", lambda: "nodes: not listed yet")
    health.add("lease", lambda: "", Probe.LIVE | Probe.READY)
    assert [(r.name, r.is_ok) for r in health.run()] == [("lease", True), ("watches", False)]
    assert [r.name for r in health.run(Probe.LIVE)] == ["lease"]
    shown = metrics.render().decode()
    assert 'pumice_adapter_check_ok{check="watches"} 0.0' in shown
    assert 'pumice_adapter_check_ok{check="lease"} 1.0' in shown
    health.remove("watches")
    health.remove("watches")
    assert 'check="watches"' not in metrics.render().decode()
    assert [r.name for r in health.run()] == ["lease"]


def test_a_check_that_raises_has_failed() -> None:
    health = Health(Metrics())

    def broken() -> str:
        raise RuntimeError("no idea")

    health.add("broken", broken)
    assert health.run()[0].problem == "the check failed: RuntimeError: no idea"
