"""Plots of the recorded run and of what-if runs: as text for a terminal, as SVG for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pumice.evaluation import Figures

_BARS = " ▁▂▃▄▅▆▇█"
_TEXT_WIDTH = 60
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 760, 150, 60, 40, 60
OLD_COLOUR = "#888888"
NEW_COLOURS = ("#3a7d44", "#c0504d", "#4472c4", "#b07aa1", "#e08a1e", "#17becf")


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot: a title, the text of its highest value, and a curve for each run."""

    title: str
    top: str
    # (name, colour, values from 0 to 1)
    curves: tuple[tuple[str, str, tuple[float, ...]], ...]


def text_plot(old: Figures, new: Figures) -> list[str]:
    """Rows of bars for each run: waiting pods, and the used share of CPUs."""
    runs = (("old", old), ("new", new))
    lines = []
    for panel in panels(old, [("new", new)])[:2]:
        lines.append(f"{panel.title}, up to {panel.top}")
        for (word, _), (_, _, values) in zip(runs, panel.curves, strict=True):
            lines.append(f"  {word} {_bars(values)}")
    return lines


def _bars(values: Sequence[float]) -> str:
    if not values:
        return ""
    step = max(len(values) / _TEXT_WIDTH, 1)
    picked = [values[int(i * step)] for i in range(min(_TEXT_WIDTH, len(values)))]
    return "".join(_BARS[round(min(max(value, 0), 1) * (len(_BARS) - 1))] for value in picked)


def panels(old: Figures, new: Sequence[tuple[str, Figures]]) -> list[Panel]:
    """Waiting pods, the share of each resource, and fairness, of all runs."""
    runs = [("recorded", OLD_COLOUR, old)]
    runs += [
        (name, NEW_COLOURS[number % len(NEW_COLOURS)], run)
        for number, (name, run) in enumerate(new)
    ]
    most = max((max(run.curves.waiting_pods, default=0) for _, _, run in runs), default=0) or 1
    waiting = tuple(
        (name, colour, tuple(count / most for count in run.curves.waiting_pods))
        for name, colour, run in runs
    )
    found = [Panel("pods waiting", str(most), waiting)]
    names = dict.fromkeys(name for _, _, run in runs for name in run.curves.held)
    for resource in names:
        held = tuple(
            (name, colour, tuple(run.curves.held.get(resource, ()))) for name, colour, run in runs
        )
        if resource == "cpu" or any(any(values) for _, _, values in held):
            found.append(Panel(f"share of {resource} used", "100%", held))
    fair = tuple((name, colour, tuple(run.curves.fairness)) for name, colour, run in runs)
    return [*found, Panel("fairness between queues", "100%", fair)]


def svg_plot(old: Figures, new: Sequence[tuple[str, Figures]], title: str) -> str:
    """An SVG document."""
    drawn = panels(old, new)
    seconds = old.seconds or 1
    height = _TOP + len(drawn) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, panel in enumerate(drawn):
        parts += _frame(number, panel, seconds)
        for position, (name, colour, values) in enumerate(panel.curves):
            parts.append(_line(number, colour, old.curves.seconds, values, seconds))
            x = _LEFT + 8 + 120 * (position % 5)
            y = _bottom(number) + 34 + 14 * (position // 5)
            parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{escape(name[:18])}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _bottom(panel: int) -> int:
    return _TOP + panel * (_HEIGHT + _GAP) + _HEIGHT


def _frame(number: int, panel: Panel, seconds: float) -> list[str]:
    bottom, right = _bottom(number), _WIDTH - 20
    return [
        f'<path d="M{_LEFT},{bottom - _HEIGHT}V{bottom}H{right}" fill="none" stroke="#888"/>',
        f'<text x="{_LEFT - 8}" y="{bottom - _HEIGHT + 4}" text-anchor="end">{panel.top}</text>',
        f'<text x="{_LEFT - 8}" y="{bottom + 4}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{bottom + 18}">{escape(panel.title)}</text>',
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{seconds:.0f} s</text>',
    ]


def _line(
    panel: int, colour: str, times: Sequence[float], values: Sequence[float], seconds: float
) -> str:
    bottom, width = _bottom(panel), _WIDTH - 20 - _LEFT
    steps: list[str] = []
    for second, value in zip(times, values, strict=False):
        x = _LEFT + width * second / seconds
        y = bottom - _HEIGHT * min(max(value, 0.0), 1.0)
        steps.append(f"{'H' if steps else 'M'}{x:.1f}{'V' if steps else ','}{y:.1f}")
    return f'<path d="{"".join(steps)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
