"""A session measures actions and plugins with the stopwatch that it is given, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pumice.core.decisions import SessionResult
from pumice.core.model.fit import Refusal
from pumice.core.session.policies import SortKey
from pumice.core.session.timings import Timings
from tests.core.builders import NOW_NS
from tests.core.strangers import StrangerPlugin, engine_with, explode, registering, stranger


class HandWound:
    """A stopwatch that only moves when something is said to take time."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.reads = 0

    def __call__(self) -> int:
        self.reads += 1
        return self.now_ns


def times(result: SessionResult) -> dict[tuple[str, str], tuple[int, int]]:
    return {(t.action, t.plugin): (t.duration_ns, t.calls) for t in result.timings}


def measured(plugin: type[StrangerPlugin] | None, watch: HandWound) -> SessionResult:
    engine = engine_with(plugin)
    engine.timings = Timings(watch)
    return engine.schedule(NOW_NS)


def test_without_a_stopwatch_nothing_is_measured_and_the_same_is_decided() -> None:
    plain = engine_with(registering("pre_predicate", lambda _: None)).schedule(NOW_NS)
    timed = measured(registering("pre_predicate", lambda _: None), HandWound())
    assert plain.timings == ()
    assert replace(timed, timings=()) == plain


def test_a_slow_function_counts_for_its_plugin_and_for_the_action_that_called_it() -> None:
    watch = HandWound()

    def slow(_task: object) -> None:
        watch.now_ns += 50

    found = times(measured(registering("pre_predicate", slow), watch))
    spent, calls = found["allocate", "stranger"]
    assert spent == 50 * calls > 0
    assert found["allocate", ""][0] == spent
    assert found["enqueue", ""] == (0, 1)


def test_opening_and_closing_count_for_their_plugin() -> None:
    watch = HandWound()

    def takes(nanoseconds: int) -> Any:
        def method(*_: object) -> None:
            watch.now_ns += nanoseconds

        return method

    found = times(measured(stranger(open=takes(7), close=takes(3)), watch))
    assert found["open", "stranger"] == (7, 1)
    assert found["close", "stranger"] == (3, 1)
    assert found["open", ""] == (7, 1)
    assert found["open", "gang"] == (0, 1)


def test_a_lazy_answer_is_measured_while_it_is_made() -> None:
    watch = HandWound()

    def lazily(_class: object, rows: Any) -> Iterator[Refusal]:
        watch.now_ns += 5
        yield Refusal("nothing", np.zeros(len(rows), dtype=bool), unresolvable=False)

    found = times(measured(registering("row_predicate", lazily), watch))
    spent, calls = found["allocate", "stranger"]
    assert spent == 5 * calls > 0


def test_parts_of_strong_forms_are_measured() -> None:
    watch = HandWound()

    def key(_job: object) -> int:
        watch.now_ns += 2
        return 0

    found = times(measured(registering("job_order", SortKey(key)), watch))
    assert found["allocate", "stranger"][0] > 0


def test_a_nested_call_counts_once() -> None:
    watch = HandWound()
    timings = Timings(watch)

    def inner() -> None:
        watch.now_ns += 10

    def outer() -> None:
        watch.now_ns += 1
        timings.timed("inner", inner)()
        watch.now_ns += 1

    with timings.action("allocate"):
        timings.timed("outer", outer)()
    found = {(t.action, t.plugin): t.duration_ns for t in timings.result()}
    assert found == {
        ("allocate", "inner"): 10,
        ("allocate", "outer"): 2,
        ("allocate", ""): 12,
    }


def test_a_session_that_starts_over_keeps_the_time_of_the_plugin_that_failed() -> None:
    watch = HandWound()

    def slow_then_wrong(_task: object) -> None:
        watch.now_ns += 50
        explode()

    result = measured(registering("pre_predicate", slow_then_wrong), watch)
    assert [fault.author for fault in result.faults] == ["stranger"]
    assert times(result)["allocate", "stranger"] == (50, 1)


def test_every_session_begins_at_zero() -> None:
    watch = HandWound()
    engine = engine_with(registering("pre_predicate", lambda _: None))
    engine.timings = Timings(watch)
    first, second = (engine.schedule(NOW_NS + number) for number in range(2))
    assert times(second)["open", "stranger"] == times(first)["open", "stranger"] == (0, 1)


def test_built_in_plugins_are_measured_a_fixed_number_of_times_a_session() -> None:
    watch = HandWound()
    result = measured(None, watch)
    assert result.decisions
    rows = len(result.timings)
    assert watch.reads == 2 * sum(timing.calls for timing in result.timings)
    # Actions, open, close, and at most two for each plugin: no function of a built-in plugin.
    assert all(timing.calls <= 2 for timing in result.timings)
    assert rows <= 3 + 2 + 2 * 9


# Faults.


def test_a_fault_names_the_line_of_the_plugin_that_raised() -> None:
    result = engine_with(registering("pre_predicate", explode)).schedule(NOW_NS)
    (fault,) = result.faults
    assert fault.file.endswith("strangers.py")
    assert fault.line == explode.__code__.co_firstlineno + 1


@pytest.mark.parametrize("method", ["__init__", "open", "close", "next_wake"])
def test_a_fault_of_a_method_names_a_line(method: str) -> None:
    result = engine_with(stranger(**{method: explode})).schedule(NOW_NS)
    (fault,) = result.faults
    assert (fault.file.rpartition("/")[2], fault.line) == (
        "strangers.py",
        explode.__code__.co_firstlineno + 1,
    )


def test_a_wrong_answer_names_the_function_that_gave_it() -> None:
    def nonsense(_task: object) -> int:
        return 3

    result = engine_with(registering("pre_predicate", nonsense)).schedule(NOW_NS)
    (fault,) = result.faults
    assert fault.file == __file__
    assert fault.line == nonsense.__code__.co_firstlineno


def test_an_error_in_a_library_names_the_line_of_the_plugin_that_called_it() -> None:
    source = "import json\n\ndef parse(_task):\n    json.loads('[')\n"
    module: dict[str, Any] = {"__name__": "tests.core.strangers"}
    exec(compile(source, "own_plugin.py", "exec"), module)
    result = engine_with(registering("pre_predicate", module["parse"])).schedule(NOW_NS)
    (fault,) = result.faults
    assert (fault.file, fault.line) == ("own_plugin.py", 4)
