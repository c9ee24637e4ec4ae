"""Line charts as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 44, 52
_LINE, _GRID, _INK, _TARGET = "#3a7d44", "#dddddd", "#444444", "#c0504d"
_TICKS = 5


@dataclass(frozen=True, slots=True)
class Chart:
    """A line chart whose axes start at zero, with a dashed line for the target."""

    title: str
    across: str
    upwards: str
    points: Sequence[tuple[float, float]]
    target: float | None = None

    def svg(self) -> str:
        """An SVG document."""
        points = sorted(self.points)
        widest = _round_up(max((x for x, _ in points), default=1.0))
        tallest = _round_up(max((*(y for _, y in points), self.target or 0.0), default=1.0))
        frame = _Frame(widest, tallest)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12" '
            f'fill="{_INK}">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="{_LEFT}" y="24" font-size="14">{escape(self.title)}</text>',
            *frame.grid(),
            f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 12}" text-anchor="end">'
            f"{escape(self.across)}</text>",
            f'<text x="{_LEFT}" y="{_TOP - 6}">{escape(self.upwards)}</text>',
        ]
        if self.target is not None:
            y = frame.y(self.target)
            parts.append(
                f'<path d="M{_LEFT},{y:.1f}H{_WIDTH - _RIGHT}" stroke="{_TARGET}" '
                'stroke-dasharray="6 4" fill="none"/>'
            )
        parts += _line([(frame.x(x), frame.y(y), y) for x, y in points])
        return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class _Frame:
    """Maps values to positions in the image, and draws the grid."""

    widest: float
    tallest: float

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / self.widest

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / self.tallest

    def grid(self) -> list[str]:
        parts = []
        for number in range(_TICKS + 1):
            wide, tall = self.widest * number / _TICKS, self.tallest * number / _TICKS
            x, y = self.x(wide), self.y(tall)
            parts += [
                f'<path d="M{x:.1f},{_TOP}V{_HEIGHT - _BOTTOM}" stroke="{_GRID}"/>',
                f'<path d="M{_LEFT},{y:.1f}H{_WIDTH - _RIGHT}" stroke="{_GRID}"/>',
                f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
                f"{_short(wide)}</text>",
                f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_short(tall)}</text>',
            ]
        return parts


def _line(points: Sequence[tuple[float, float, float]]) -> list[str]:
    """The line and its points, with their values."""
    if not points:
        return []
    path = "L".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    parts = [f'<path d="M{path}" fill="none" stroke="{_LINE}" stroke-width="2"/>']
    for x, y, value in points:
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{_LINE}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle" font-size="11">'
            f"{_short(value)}</text>"
        )
    return parts


def _round_up(value: float) -> float:
    """The next round number, as the end of an axis with five ticks."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if value <= step * power
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"
