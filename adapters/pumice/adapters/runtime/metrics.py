"""Counts of what the runtime did, readable by tests and, as text, by Prometheus."""

from collections import Counter
from typing import TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]

PREFIX = "pumice_adapter_"


class Metrics:
    """Counters and gauges by name and labels."""

    def __init__(self) -> None:
        self._counters: Counter[tuple[str, Labels]] = Counter()
        self._gauges: dict[tuple[str, Labels], float] = {}

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        self._counters[name, tuple(sorted(labels.items()))] += amount

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self._gauges[name, tuple(sorted(labels.items()))] = value

    def counted(self, name: str, **labels: str) -> int:
        """The sum over all series that have these labels, whatever others they have."""
        wanted = set(labels.items())
        return sum(
            amount
            for (series, given), amount in self._counters.items()
            if series == name and wanted <= set(given)
        )

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """The counter's sums for each value of a label."""
        sums: dict[str, int] = {}
        for (series, given), amount in sorted(self._counters.items()):
            value = dict(given).get(label)
            if series == name and value is not None:
                sums[value] = sums.get(value, 0) + amount
        return sums

    def render(self) -> str:
        """All series in the text format that Prometheus scrapes."""
        lines = [
            *self._rendered("counter", "_total", dict(self._counters)),
            *self._rendered("gauge", "", self._gauges),
        ]
        return "".join(f"{line}\n" for line in lines)

    @staticmethod
    def _rendered(
        kind: str,
        suffix: str,
        series: dict[tuple[str, Labels], int] | dict[tuple[str, Labels], float],
    ) -> list[str]:
        lines: list[str] = []
        last = ""
        for (name, labels), value in sorted(series.items()):
            full = f"{PREFIX}{name}{suffix}"
            if full != last:
                lines.append(f"# TYPE {full} {kind}")
                last = full
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
            lines.append(f"{full}{{{inner}}} {value:g}" if inner else f"{full} {value:g}")
        return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
