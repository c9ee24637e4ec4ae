"""Checks the answers of plugins; a wrong one raises an error that says what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
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


def truth_or_none(answer: object) -> bool | None:
    return None if answer is None else truth(answer)


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
_time = _integer("a time in nanoseconds or None")
_vote = _integer("a vote: PERMIT, ABSTAIN or REJECT")


def time_or_none(answer: object) -> int | None:
    return None if answer is None else _time(answer)


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


def _array(length: int, answer: object) -> Any:
    """A finite number for every row that was asked about."""
    if not isinstance(answer, np.ndarray) or answer.shape != (length,):
        raise wrong(f"an array of {length} numbers", answer)
    if not np.issubdtype(answer.dtype, np.number) or not np.isfinite(answer).all():
        raise wrong("finite numbers", answer)
    return answer


def _refusals(length: int, answer: object) -> tuple[Refusal, ...]:
    if not isinstance(answer, Iterable) or isinstance(answer, (str, bytes, Mapping)):
        raise wrong("refusals", answer)
    refusals = tuple(answer)
    for refusal in refusals:
        if not isinstance(refusal, Refusal):
            raise wrong("refusals", refusal)
        rows: object = refusal.rows
        if not isinstance(rows, np.ndarray) or rows.shape != (length,) or rows.dtype != np.bool_:
            raise wrong(f"refusals with a mask of {length} rows", rows)
    return refusals


def scores_of(count: int, answer: object) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An array of so many numbers."""
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


# The checks of points whose answers have to suit the question, or the number of nodes.
_IN_CONTEXT: dict[str, Callable[[NodeTable, Question, Any], Any]] = {
    # Over all nodes.
    "class_predicate": lambda table, _, answer: _refusals(len(table), answer),
    "task_predicate": lambda table, _, answer: (
        None if answer is None else _refusals(len(table), answer)
    ),
    "class_score": lambda table, _, answer: _array(len(table), answer),
    # Over the rows that were asked about.
    "row_predicate": lambda _, question, answer: _refusals(len(question[1]), answer),
    **dict.fromkeys(
        ("row_score", "row_batch_score"),
        lambda _, question, answer: _array(len(question[1]), answer),
    ),
    **dict.fromkeys(
        ("task_score", "task_batch_score"),
        lambda _, question, answer: None if answer is None else _array(len(question[1]), answer),
    ),
    "best_node": lambda _, question, answer: _best_node(question[1], answer),
    # Victims.
    **dict.fromkeys(
        ("preemptable", "reclaimable"),
        lambda _, question, answer: _victims(question[1], answer),
    ),
    "unified_evictable": lambda _, question, answer: _victims(question[2], answer),
    "victim_tasks": lambda _, question, answer: _tasks(question[0], answer),
    "hyper_node_order": lambda _, question, answer: _hyper_node_scores(question[1], answer),
}
_SIMPLE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (
            "job_order",
            "sub_job_order",
            "queue_order",
            "victim_queue_order",
            "task_order",
            "node_score",
        ),
        real,
    ),
    "pre_predicate": text_or_none,
    "node_predicate": lambda answer: (
        answer if isinstance(answer, Refusal) else text_or_none(answer)
    ),
    "why_not_valid": _reason,
    **dict.fromkeys(("job_pipelined", "sub_job_pipelined", "job_enqueueable"), _vote),
    **dict.fromkeys(
        (
            "is_plain",
            "lasts",
            "job_ready",
            "sub_job_ready",
            "job_starving",
            "overused",
            "preemptive",
            "allocatable",
        ),
        truth,
    ),
    "job_enqueued": lambda _answer: None,
    "job_gradient": _gradient,
    "sub_job_gradient": _gradient,
}


def check_of(point: str, table: NodeTable) -> Callable[[Question, Any], Any]:
    """Takes question and answer; returns the answer, or raises TypeError."""
    if point in _SIMPLE:
        check = _SIMPLE[point]
        return lambda _question, answer: check(answer)
    return partial(_IN_CONTEXT[point], table)
