"""A plugin whose answers are of the wrong type or shape is left out like one that raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pumice.core.model.fit import Refusal
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import (
    AllocatableCount,
    ClassRule,
    DomainScore,
    MissingTasks,
    MissingVote,
    PlainRule,
    RowTerms,
    SortKey,
    VictimRule,
)
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS
from tests.core.strangers import (
    POINTS,
    StrangerPlugin,
    assert_left_out,
    engine_with,
    explode,
    registering,
    stranger,
)

A_TEXT = "seven"
NAN = float("nan")
NONSENSE: dict[tuple[str, ...], list[Any]] = {
    ("job_order", "sub_job_order", "queue_order", "victim_queue_order", "task_order"): [
        A_TEXT,
        None,
        NAN,
    ],
    ("pre_predicate",): [7, True],
    ("class_predicate", "row_predicate", "task_predicate"): [
        7,
        [A_TEXT],
        [Refusal("", np.zeros(2, dtype=np.bool_), unresolvable=True)],
        [Refusal("", np.zeros(3), unresolvable=True)],  # type: ignore[arg-type]
        [Refusal("", [True, True, True], unresolvable=True)],  # type: ignore[arg-type]
    ],
    ("node_predicate",): [7, True],
    ("class_score", "row_score", "row_batch_score", "task_score", "task_batch_score"): [
        7,
        [1.0, 2.0, 3.0],
        np.zeros(2),
        np.zeros((3, 1)),
        np.array([1, NAN, 1]),
        np.array(list("abc")),
    ],
    ("node_score",): [A_TEXT, None, NAN],
    ("is_plain", "lasts"): [None, 1],
    ("best_node",): ["elsewhere", 1],
    ("preemptable", "reclaimable", "unified_evictable"): [
        None,
        [],
        ([A_TEXT], PERMIT),
        ([], A_TEXT),
        (A_TEXT, PERMIT),
    ],
    ("victim_tasks",): [None, [A_TEXT]],
    ("overused", "preemptive", "allocatable"): [None, A_TEXT, 1],
    ("job_ready", "sub_job_ready", "job_starving"): [None, A_TEXT, 1],
    ("why_not_valid",): [A_TEXT, False],
    ("job_pipelined", "sub_job_pipelined", "job_enqueueable"): [None, True, 0.5],
    ("hyper_node_order",): [None, {"unknown": 1.0}, {"h1": A_TEXT}],
    ("job_gradient", "sub_job_gradient"): [None, ["h1"], [[1]]],
    ("simulation",): [None, A_TEXT],
}


@dataclass(frozen=True)
class Term:
    """A row term of a stranger's."""

    evaluate: Callable[..., Any]


CASES = [
    (point, answer)
    for points, answers in NONSENSE.items()
    for point in points
    for answer in answers
]


@pytest.mark.parametrize(("point", "answer"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_an_answer_of_the_wrong_type_or_shape_counts_as_raising(point: str, answer: Any) -> None:
    plugin = registering(point, lambda *_: answer)
    assert_left_out(plugin, point, "allocate", "probe", "backfill", point=point)


def test_every_point_with_an_answer_knows_what_nonsense_is() -> None:
    assert {point for point, _ in CASES} | {"job_enqueued"} == set(POINTS)


def saying(answer: Any) -> Any:
    return lambda *_: answer


# A point, a policy in its strong form with one function that answers nonsense, and which one.
STRONG_FORMS: list[tuple[str, Any, str]] = [
    *(
        (f"{whose}_order", SortKey(saying(answer)), "key")
        for whose in ("job", "sub_job", "queue", "task")
        for answer in (A_TEXT, None, NAN, (1, A_TEXT))
    ),
    *(("allocatable", AllocatableCount(saying(a)), "count") for a in (None, -1, 0.5, True)),
    *(
        (point, MissingTasks(saying(answer)), "missing")
        for point in ("job_ready", "sub_job_ready")
        for answer in (A_TEXT, None, True)
    ),
    *(
        (point, MissingVote(saying(answer)), "missing")
        for point in ("job_pipelined", "sub_job_pipelined")
        for answer in (A_TEXT, None, 0.5)
    ),
    *(
        ("hyper_node_order", DomainScore(saying(answer), saying(0.0), 1.0), "score")
        for answer in (None, [1.0], np.zeros(2), np.array([NAN]), np.array([A_TEXT]))
    ),
    *(
        (point, VictimRule(saying(answer), saying(1), saying(0)), "victims")
        for point in ("preemptable", "reclaimable")
        for answer in (None, ([A_TEXT], PERMIT))
    ),
    *(
        (point, RowTerms(saying(answer)), "term")
        for point in ("row_predicate", "row_score", "row_batch_score")
        for answer in (None, 7)
    ),
    ("row_score", RowTerms(saying(Term(saying(np.zeros(2))))), "evaluate"),
    *(
        (point, ClassRule(saying(7), saying(0)), "answer")
        for point in ("class_predicate", "class_score")
    ),
    ("class_score", ClassRule(saying(np.zeros(3)), saying([])), "version"),
    ("class_score", ClassRule(saying(np.zeros(3)), saying(0), saying([])), "facet"),
    ("is_plain", PlainRule(saying(1), saying(True)), "of_class"),
    ("is_plain", PlainRule(saying(None), saying(None)), "of_task"),
]


@pytest.mark.parametrize(
    ("point", "policy", "part"), STRONG_FORMS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_every_function_of_a_strong_form_is_guarded(point: str, policy: Any, part: str) -> None:
    where = f"{point}.{part}"
    assert_left_out(registering(point, policy), where, "allocate", "probe", point=point)


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
@pytest.mark.parametrize(
    "rule",
    [
        VictimRule(saying(([], PERMIT)), explode, saying(0.0)),
        VictimRule(saying(([], PERMIT)), saying(NAN), explode),
    ],
)
def test_a_bound_on_victims_is_guarded_too(point: str, rule: VictimRule) -> None:
    class Marked(StrangerPlugin):
        def open(self, session: Session) -> None:
            getattr(session.hooks, point)["stranger"] = rule

        def close(self, session: Session) -> None:
            getattr(session.hooks, point)["stranger"].mark(next(iter(session.jobs.values())))

    assert_left_out(Marked, f"{point}.mark", "allocate", "probe")


@pytest.mark.parametrize("why_not", [explode, lambda _: 7])
def test_a_simulation_is_guarded_too(why_not: Callable[..., Any]) -> None:
    class Simulated:
        def __init__(self) -> None:
            self.add = self.remove = self.is_allocatable = lambda *_: None
            self.why_not = why_not

    point = "simulation"
    plugin = registering(point, lambda *_: Simulated())
    assert_left_out(plugin, "simulation.why_not", "allocate", "probe", point=point)


def test_a_wake_up_time_that_is_no_time_counts_as_raising() -> None:
    assert_left_out(stranger(next_wake=lambda *_: "soon"), "next_wake")


def test_a_hook_that_is_no_function_counts_as_raising_when_opened() -> None:
    assert_left_out(registering("job_order", 7), "open")
    assert_left_out(registering("handlers", print), "open")


def test_the_hooks_of_others_are_not_its_to_change() -> None:
    def open_(self: StrangerPlugin, session: Session) -> None:
        session.hooks.job_order["stranger"] = lambda *_: 0
        session.hooks.job_ready["gang"] = lambda _: True

    class LastPlugin(StrangerPlugin):
        def open(self, session: Session) -> None:
            session.hooks.job_ready["gang"] = lambda _: True

    for plugin in (stranger(open=open_), LastPlugin):
        result = assert_left_out(plugin, "open")
        assert "job_ready of the plugin gang" in result.faults[0].error


def test_victims_are_only_those_it_was_asked_about() -> None:
    def offers_too_much(_: object, candidates: list[Any]) -> Any:
        return [*candidates, candidates[0]], PERMIT

    def changes_its_list(_: object, candidates: list[Any]) -> Any:
        candidates.clear()
        return [], PERMIT

    point = "preemptable"
    engine = engine_with(registering(point, offers_too_much), "allocate", "probe", point=point)
    assert [f.where for f in engine.schedule(NOW_NS).faults] == [point]
    engine = engine_with(registering(point, changes_its_list), "allocate", "probe", point=point)
    assert engine.schedule(NOW_NS).faults == ()
