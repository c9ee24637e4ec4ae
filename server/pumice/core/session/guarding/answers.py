"""Checks the answers of plugins; a wrong one raises an error that says what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sized
from math import inf, isnan
from types import NoneType
from typing import Any

import numpy as np

from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Refusal
from pumice.core.model.reasons import Reason

Question = tuple[Any, ...]


def wrong(wanted: str, answer: object) -> TypeError:
    text = repr(answer)
    return TypeError(f"must answer {wanted}, not {text if len(text) < 80 else text[:77] + '...'}")


def real(answer: object) -> float:
    """A number that can be compared."""
    if isinstance(answer, (int, float, np.integer, np.floating)) and not isnan(answer):
        return float(answer) if isinstance(answer, (np.integer, np.floating)) else answer
    raise wrong("a number", answer)


def sortable(answer: object) -> object:
    """A number, or numbers that are compared one after the other."""
    if isinstance(answer, tuple):
        return tuple([sortable(part) for part in answer])
    return real(answer)


def row_term(answer: object) -> Any:
    if not callable(getattr(answer, "evaluate", None)):
        raise wrong("a term with evaluate(rows)", answer)
    return answer


def truth(answer: object) -> bool:
    if not isinstance(answer, (bool, np.bool_)):
        raise wrong("True or False", answer)
    return bool(answer)


def _or_none(check: Callable[..., Any]) -> Callable[..., Any]:
    """A check that also allows None, which is the last argument like any other answer."""
    return lambda *asked: None if asked[-1] is None else check(*asked)


truth_or_none = _or_none(truth)


def _instance(wanted: str, *types: Any) -> Callable[[object], Any]:
    """A check that the answer is of one of some types."""

    def check(answer: object) -> Any:
        if not isinstance(answer, types):
            raise wrong(wanted, answer)
        return answer

    return check


# A value that can be compared with later ones.
hashable = _instance("a hashable value", Hashable)
text_or_none = _instance("a text or None", str, NoneType)
_reason = _instance("a Reason or None", Reason, NoneType)


def _integer(wanted: str, least: float = -inf) -> Callable[[object], int]:
    """A check that the answer is a whole number, and not below another one."""

    def check(answer: object) -> int:
        is_whole = isinstance(answer, (int, np.integer)) and not isinstance(answer, bool)
        if not is_whole or answer < least:  # type: ignore[operator]
            raise wrong(wanted, answer)
        return int(answer)  # type: ignore[call-overload,no-any-return]

    return check


missing = _integer("a whole number")
whole = _integer("a whole number, 0 or more", 0)
time_or_none = _or_none(_integer("a time in nanoseconds or None"))
_vote = _integer("a vote: PERMIT, ABSTAIN or REJECT")


def _tasks(offered: Iterable[Task], answer: object) -> list[Task]:
    """Only tasks that the plugin was asked about, each once."""
    uids = {task.uid for task in offered}
    if not isinstance(answer, (list, tuple)):
        raise wrong("a list of tasks", answer)
    for task in answer:
        if not isinstance(task, Task) or task.uid not in uids:
            raise wrong("tasks that it was asked about", task)
        uids.remove(task.uid)
    return list(answer)


def _victims(offered: Iterable[Task], answer: object) -> tuple[list[Task], int]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise wrong("a list of tasks and a vote", answer)
    return _tasks(offered, answer[0]), _vote(answer[1])


def _array(rows: Sized, answer: object) -> Any:
    """A finite number for every row that was asked about."""
    if not isinstance(answer, np.ndarray) or answer.shape != (len(rows),):
        raise wrong(f"an array of {len(rows)} numbers", answer)
    if not np.issubdtype(answer.dtype, np.number) or not np.isfinite(answer).all():
        raise wrong("finite numbers", answer)
    return answer


def _refusals(asked: Sized, answer: object) -> tuple[Refusal, ...]:
    if not isinstance(answer, Iterable) or isinstance(answer, (str, bytes, Mapping)):
        raise wrong("refusals", answer)
    refusals = tuple(answer)
    for refusal in refusals:
        if not isinstance(refusal, Refusal):
            raise wrong("refusals", refusal)
        rows: object = refusal.rows
        count = len(asked)
        if not isinstance(rows, np.ndarray) or rows.shape != (count,) or rows.dtype != np.bool_:
            raise wrong(f"refusals with a mask of {count} rows", rows)
    return refusals


def scores_of(count: int, answer: object) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An array of ``count`` numbers."""
    if not isinstance(answer, np.ndarray) or answer.shape != (count,):
        raise wrong(f"an array of {count} numbers", answer)
    if answer.dtype.kind not in "iuf" or np.isnan(answer).any():
        raise wrong(f"an array of {count} numbers", answer)
    return answer.astype(np.float64)


def _hyper_node_scores(known: Iterable[str], answer: object) -> dict[str, float]:
    if not isinstance(answer, dict) or not answer.keys() <= set(known):
        raise wrong("scores by the HyperNodes that it was asked about", answer)
    return {name: real(score) for name, score in answer.items()}


def _gradient(answer: object) -> list[list[str]]:
    if not isinstance(answer, list) or not all(isinstance(tier, list) for tier in answer):
        raise wrong("lists of HyperNode names", answer)
    if not all(isinstance(name, str) for tier in answer for name in tier):
        raise wrong("lists of HyperNode names", answer)
    return answer


def _best_node(known: Mapping[str, float], answer: object) -> Any:
    if answer is not None and answer not in known:
        raise wrong("one of the nodes that it was asked about, or None", answer)
    return text_or_none(answer)


# The checks of points whose answers have to suit a part of the question, and the place of that part;
# None: the answer is about all nodes.
_IN_CONTEXT: dict[str, tuple[Callable[[Any, Any], Any], int | None]] = {
    "class_predicate": (_refusals, None),
    "task_predicate": (_or_none(_refusals), None),
    "class_score": (_array, None),
    "row_predicate": (_refusals, 1),
    **dict.fromkeys(("row_score", "row_batch_score"), (_array, 1)),
    **dict.fromkeys(("task_score", "task_batch_score"), (_or_none(_array), 1)),
    "best_node": (_best_node, 1),
    **dict.fromkeys(("preemptable", "reclaimable"), (_victims, 1)),
    "unified_evictable": (_victims, 2),
    "victim_tasks": (_tasks, 0),
    "hyper_node_order": (_hyper_node_scores, 1),
}
_YES_OR_NO = (
    *("is_plain", "lasts", "job_ready", "sub_job_ready", "job_starving"),
    *("overused", "preemptive", "allocatable"),
)
_SIMPLE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("job_order", "sub_job_order", "queue_order", "task_order"), real),
    **dict.fromkeys(("victim_queue_order", "node_score"), real),
    "pre_predicate": text_or_none,
    "node_predicate": lambda answer: (
        answer if isinstance(answer, Refusal) else text_or_none(answer)
    ),
    "why_not_valid": _reason,
    **dict.fromkeys(("job_pipelined", "sub_job_pipelined", "job_enqueueable"), _vote),
    **dict.fromkeys(_YES_OR_NO, truth),
    "job_enqueued": lambda _answer: None,
    "job_gradient": _gradient,
    "sub_job_gradient": _gradient,
}


def check_of(point: str, table: NodeTable) -> Callable[[Question, Any], Any]:
    """Takes question and answer; returns the answer, or raises TypeError."""
    if point in _SIMPLE:
        check = _SIMPLE[point]
        return lambda _question, answer: check(answer)
    suits, place = _IN_CONTEXT[point]
    return lambda question, answer: suits(table if place is None else question[place], answer)
