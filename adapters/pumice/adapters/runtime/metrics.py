"""Counters, gauges and histograms of one process, served to Prometheus.

Every metric is declared, those of the adapter in `metric_definitions`. A name or label that is not
declared is refused. Counters and histograms are plain numbers until they are scraped, because those
of the library need a lock and a search for every value, which is a tenth of the time of a bind.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from pumice.adapters.runtime.metric_definitions import ADAPTER_SERIES, Series

# Name, then pairs of label and value in any order.
_Key = tuple[Any, ...]


@dataclass(slots=True)
class _Observed:
    """One series of a histogram: the number of values in each bucket, and their sum."""

    bounds: tuple[float, ...]
    counts: list[int]
    sum: float = 0.0


class Metrics(Collector):
    """All metrics of one process, in a separate registry, so that a process can have several."""

    def __init__(self, series: Series = ADAPTER_SERIES) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._series = series
        prefix = series.prefix
        self._children: dict[_Key, Any] = {}
        self._gauges = {
            name: Gauge(prefix + name, text, labels, registry=self.registry)
            for name, (text, labels) in series.gauges.items()
        }
        # A counter without labels is shown with 0.
        self._counts: dict[_Key, int] = {
            (name,): 0 for name, (_, labels) in series.counters.items() if not labels
        }
        self._observed: dict[_Key, _Observed] = {}
        self.registry.register(self)

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        key = (name, *labels.items())
        try:
            self._counts[key] += amount
        except KeyError:
            _check(name, labels, self._series.counters[name][1])
            self._counts[key] = amount

    def gauge(self, name: str, value: float, **labels: str) -> None:
        key = (name, *labels.items())
        found = self._children.get(key)
        if found is None:
            metric = self._gauges[name]
            found = self._children[key] = metric.labels(**labels) if labels else metric
        found.set(value)

    def remove_gauge(self, name: str, **labels: str) -> None:
        """Removes one series of a gauge, such as that of a deleted object."""
        self._children.pop((name, *labels.items()), None)
        with suppress(KeyError):
            self._gauges[name].remove(*(labels[label] for label in self._series.gauges[name][1]))

    def gauge_from(self, name: str, value: Callable[[], float]) -> None:
        """Makes a gauge read its value from a function at each scrape."""
        self._gauges[name].set_function(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds one value to a histogram."""
        key = (name, *labels.items())
        found = self._observed.get(key)
        if found is None:
            _, declared, bounds = self._series.histograms[name]
            _check(name, labels, declared)
            found = self._observed[key] = _Observed(bounds, [0] * (len(bounds) + 1))
        found.counts[bisect_left(found.bounds, value)] += 1
        found.sum += value

    def counted(self, name: str, **labels: str) -> int:
        """The sum of all series with these labels."""
        wanted = labels.items()
        return sum(value for given, value in self._samples(name) if wanted <= given.items())

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """The sums of a counter for each value of a label."""
        sums: dict[str, int] = {}
        for given, value in self._samples(name):
            if label in given:
                sums[given[label]] = sums.get(given[label], 0) + value
        return dict(sorted(sums.items()))

    def observed(self, name: str, **labels: str) -> int:
        """The number of values of a histogram, in all series with these labels."""
        wanted = set(labels.items())
        return sum(
            sum(found.counts)
            for (known, *given), found in self._observed.items()
            if known == name and wanted <= set(given)
        )

    def render(self) -> bytes:
        """All series in the text format that Prometheus scrapes."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """The counters and histograms. The library calls it at each scrape."""
        prefix = self._series.prefix
        for name, (text, labels) in self._series.counters.items():
            counter = CounterMetricFamily(prefix + name, text, labels=labels)
            for values, count in _by_values(self._counts, name, labels).items():
                counter.add_metric(values, sum(count))
            yield counter
        for name, (text, labels, bounds) in self._series.histograms.items():
            histogram = HistogramMetricFamily(prefix + name, text, labels=labels)
            shown = [*map(str, bounds), "+Inf"]
            for values, found in _by_values(self._observed, name, labels).items():
                counts = [
                    sum(column) for column in zip(*(one.counts for one in found), strict=True)
                ]
                buckets = list(zip(shown, map(float, accumulate(counts)), strict=True))
                histogram.add_metric(values, buckets, sum(one.sum for one in found))
            yield histogram

    def _samples(self, name: str) -> list[tuple[dict[str, str], int]]:
        if name not in self._series.counters:
            raise KeyError(name)
        return [(dict(given), n) for (known, *given), n in self._counts.items() if known == name]


def _check(name: str, labels: Mapping[str, str], declared: tuple[str, ...]) -> None:
    if set(labels) != set(declared):
        raise ValueError(f"the labels of {name} are {declared}, not {tuple(labels)}")


def _by_values(
    series: Mapping[_Key, Any], name: str, labels: tuple[str, ...]
) -> dict[tuple[str, ...], list[Any]]:
    """The data of one name, by the values of its labels in the declared order."""
    found: dict[tuple[str, ...], list[Any]] = {}
    # A copy, because another thread serves the pages.
    for (known, *given), value in list(series.items()):
        if known == name:
            texts = dict(given)
            found.setdefault(tuple(texts[label] for label in labels), []).append(value)
    return found
