"""Time of actions and plugins in a session, measured with a stopwatch that the caller supplies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pumice.core.decisions import Timing

# The parts of a session outside its actions, by the names under which they are reported.
OPENING, CLOSING = "open", "close"
# Returns nanoseconds since any moment; never less than before.
Stopwatch = Callable[[], int]


class Timings:
    """Sums of time by action and plugin; the time of a nested call only counts for its own plugin."""

    def __init__(self, stopwatch: Stopwatch | None = None) -> None:
        """Nothing is measured without a stopwatch."""
        self._stopwatch = stopwatch
        # (action, plugin) -> [nanoseconds, calls]. An empty plugin: the action with all plugins that
        # it called.
        self._spent: dict[tuple[str, str], list[int]] = {}
        # The action that is being measured, and since when.
        self._action, self._began_ns = "", 0
        # Time of the calls inside the one that is being measured.
        self._nested_ns = 0

    def reset(self) -> None:
        """Starts a session."""
        self._spent, self._action, self._nested_ns = {}, "", 0

    def action(self, name: str) -> Timings:
        """A context manager that measures an action, with the plugins that it calls."""
        self._action = name
        return self

    def __enter__(self) -> None:
        if self._stopwatch is not None:
            self._began_ns = self._stopwatch()

    def __exit__(self, *_: object) -> None:
        if self._stopwatch is not None:
            self._add(self._action, "", self._stopwatch() - self._began_ns)
        self._action = ""

    def call(self, plugin: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of a plugin, and measures the call."""
        stopwatch = self._stopwatch
        if stopwatch is None:
            return function(*arguments)
        outer_ns, self._nested_ns = self._nested_ns, 0
        began_ns = stopwatch()
        try:
            return function(*arguments)
        finally:
            spent_ns = stopwatch() - began_ns
            self._add(self._action, plugin, spent_ns - self._nested_ns)
            self._nested_ns = outer_ns + spent_ns

    def timed(self, plugin: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, measured with every call."""
        return function if self._stopwatch is None else partial(self.call, plugin, function)

    def _add(self, action: str, plugin: str, spent_ns: int) -> None:
        spent = self._spent.setdefault((action, plugin), [0, 0])
        spent[0] += spent_ns
        spent[1] += 1

    def result(self) -> tuple[Timing, ...]:
        """By action and plugin, in the order of their first calls."""
        return tuple(Timing(*where, *spent) for where, spent in self._spent.items())
