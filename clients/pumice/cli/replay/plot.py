"""Plots of the recorded and the what-if run: as text for a terminal, as SVG for a file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pumice.recordings.figures import Figures

_BARS = " ▁▂▃▄▅▆▇█"
_TEXT_WIDTH = 60
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 760, 150, 60, 40, 60
_OLD, _NEW = "#c0504d", "#3a7d44"


def text_plot(old: Figures, new: Figures) -> list[str]:
    """Rows of bars for each run: waiting pods, and the used share of CPUs."""
    most = max((waiting for _, waiting, _ in [*old.curve, *new.curve]), default=0) or 1
    lines = [f"pods waiting, up to {most}"]
    for word, held in (("old", old), ("new", new)):
        lines.append(f"  {word} {_bars([waiting / most for _, waiting, _ in held.curve])}")
    lines.append("share of cpu held, up to 100%")
    for word, held in (("old", old), ("new", new)):
        lines.append(f"  {word} {_bars([min(share, 1.0) for _, _, share in held.curve])}")
    return lines


def _bars(values: Sequence[float]) -> str:
    if not values:
        return ""
    step = max(len(values) / _TEXT_WIDTH, 1)
    picked = [values[int(i * step)] for i in range(min(_TEXT_WIDTH, len(values)))]
    return "".join(_BARS[round(max(value, 0) * (len(_BARS) - 1))] for value in picked)


def svg_plot(old: Figures, new: Figures, title: str) -> str:
    """An SVG document."""
    seconds = max((point[0] for point in [*old.curve, *new.curve]), default=0) or 1
    most = max((point[1] for point in [*old.curve, *new.curve]), default=0) or 1
    height = _TOP + 2 * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{_WIDTH - 130}" y="20" fill="{_OLD}">old</text>',
        f'<text x="{_WIDTH - 90}" y="20" fill="{_NEW}">new</text>',
    ]
    parts += _panel(0, "pods waiting", f"{most}", seconds)
    parts += _panel(1, "share of cpu held", "100%", seconds)
    for colour, held in ((_OLD, old), (_NEW, new)):
        parts.append(_line(0, colour, [(s, w / most) for s, w, _ in held.curve], seconds))
        parts.append(_line(1, colour, [(s, min(c, 1.0)) for s, _, c in held.curve], seconds))
    return "\n".join([*parts, "</svg>", ""])


def _bottom(panel: int) -> int:
    return _TOP + panel * (_HEIGHT + _GAP) + _HEIGHT


def _panel(panel: int, name: str, top: str, seconds: float) -> list[str]:
    bottom, right = _bottom(panel), _WIDTH - 20
    return [
        f'<path d="M{_LEFT},{bottom - _HEIGHT}V{bottom}H{right}" fill="none" stroke="#888"/>',
        f'<text x="{_LEFT - 8}" y="{bottom - _HEIGHT + 4}" text-anchor="end">{top}</text>',
        f'<text x="{_LEFT - 8}" y="{bottom + 4}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{bottom + 18}">{escape(name)}</text>',
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{seconds:.0f} s</text>',
    ]


def _line(panel: int, colour: str, points: Sequence[tuple[float, float]], seconds: float) -> str:
    bottom, width = _bottom(panel), _WIDTH - 20 - _LEFT
    steps: list[str] = []
    for second, value in points:
        x, y = _LEFT + width * second / seconds, bottom - _HEIGHT * max(value, 0)
        steps.append(f"{'H' if steps else 'M'}{x:.1f}{'V' if steps else ','}{y:.1f}")
    return f'<path d="{"".join(steps)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
