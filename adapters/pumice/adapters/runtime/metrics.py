"""Counters, gauges and histograms of one process, served to Prometheus.

Every series is declared, those of the adapter in `metric_definitions`; a name or label that is not declared there is
refused.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from pumice.adapters.runtime.metric_definitions import ADAPTER_SERIES, Series


class Metrics:
    """All series of one process, in a registry of its own, so that a process can have several."""

    def __init__(self, series: Series = ADAPTER_SERIES) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._series = series
        prefix = series.prefix
        self._children: dict[tuple[object, ...], Any] = {}
        self._counters = {
            name: Counter(prefix + name, text, labels, registry=self.registry)
            for name, (text, labels) in series.counters.items()
        }
        self._gauges = {
            name: Gauge(prefix + name, text, labels, registry=self.registry)
            for name, (text, labels) in series.gauges.items()
        }
        self._histograms = {
            name: Histogram(prefix + name, text, labels, registry=self.registry, buckets=buckets)
            for name, (text, labels, buckets) in series.histograms.items()
        }

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        self._child(self._counters, name, labels).inc(amount)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self._child(self._gauges, name, labels).set(value)

    def remove_gauge(self, name: str, **labels: str) -> None:
        """Ends one series of a gauge, such as that of an object that is gone."""
        self._children.pop((name, *labels.items()), None)
        with suppress(KeyError):
            self._gauges[name].remove(*(labels[label] for label in self._series.gauges[name][1]))

    def gauge_from(self, name: str, value: Callable[[], float]) -> None:
        """Makes a gauge read its value from a function whenever it is scraped."""
        self._gauges[name].set_function(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds one value to a histogram."""
        self._child(self._histograms, name, labels).observe(value)

    def counted(self, name: str, **labels: str) -> int:
        """The sum over all series that have these labels, whatever others they have."""
        wanted = labels.items()
        return sum(value for given, value in self._samples(name) if wanted <= given.items())

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """The counter's sums for each value of a label."""
        sums: dict[str, int] = {}
        for given, value in self._samples(name):
            if label in given:
                sums[given[label]] = sums.get(given[label], 0) + value
        return dict(sorted(sums.items()))

    def observed(self, name: str, **labels: str) -> int:
        """How many values a histogram has, over all series that have these labels."""
        full = f"{self._series.prefix}{name}_count"
        return sum(
            int(sample.value)
            for metric in self._histograms[name].collect()
            for sample in metric.samples
            if sample.name == full and labels.items() <= sample.labels.items()
        )

    def render(self) -> bytes:
        """All series in the text format that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _samples(self, name: str) -> list[tuple[dict[str, str], int]]:
        full = f"{self._series.prefix}{name}_total"
        return [
            (sample.labels, int(sample.value))
            for metric in self._counters[name].collect()
            for sample in metric.samples
            if sample.name == full
        ]

    def _child(self, metrics: Mapping[str, Any], name: str, labels: dict[str, str]) -> Any:
        """The series of some labels. The library takes ten times as long to find one."""
        key = (name, *labels.items())
        found = self._children.get(key)
        if found is None:
            metric = metrics[name]
            found = self._children[key] = metric.labels(**labels) if labels else metric
        return found
