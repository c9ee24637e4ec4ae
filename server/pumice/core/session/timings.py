"""Time of actions and plugins in a session, measured with a stopwatch that the caller supplies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pumice.core.decisions import Timing

# The parts of a session outside its actions, by the names under which they are reported.
OPENING, CLOSING = "open", "close"
# Returns nanoseconds since any moment; never less than before.
Stopwatch = Callable[[], int]


class Timings:
    """Adds up time by action and plugin. The time of a nested call counts for its plugin only."""

    def __init__(self, stopwatch: Stopwatch | None = None) -> None:
        """Without a stopwatch nothing is measured."""
        self._stopwatch = stopwatch
        # (action, plugin) -> [nanoseconds, calls]. Without a plugin: the action with all plugins
        # that it called.
        self._spent: dict[tuple[str, str], list[int]] = {}
        self._action = ""
        # Time of the calls inside the one that is being measured.
        self._nested_ns = 0

    def reset(self) -> None:
        """A session begins."""
        self._spent, self._action, self._nested_ns = {}, "", 0

    def action(self, name: str) -> AbstractContextManager[None]:
        """Measures an action; plugins that are called meanwhile are listed under it."""
        return nullcontext() if self._stopwatch is None else self._measured(self._stopwatch, name)

    @contextmanager
    def _measured(self, stopwatch: Stopwatch, action: str) -> Iterator[None]:
        started_ns, self._action = stopwatch(), action
        try:
            yield
        finally:
            self._add(action, "", stopwatch() - started_ns)
            self._action = ""

    def timed(self, plugin: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, measured with every call."""
        stopwatch = self._stopwatch
        if stopwatch is None:
            return function

        def measured(*arguments: Any) -> Any:
            outer_ns, self._nested_ns = self._nested_ns, 0
            started_ns = stopwatch()
            try:
                return function(*arguments)
            finally:
                spent_ns = stopwatch() - started_ns
                self._add(self._action, plugin, spent_ns - self._nested_ns)
                self._nested_ns = outer_ns + spent_ns

        return measured

    def _add(self, action: str, plugin: str, spent_ns: int) -> None:
        spent = self._spent.setdefault((action, plugin), [0, 0])
        spent[0] += spent_ns
        spent[1] += 1

    def result(self) -> tuple[Timing, ...]:
        """By action and plugin, in the order of their first calls."""
        return tuple(Timing(*where, *spent) for where, spent in self._spent.items())
