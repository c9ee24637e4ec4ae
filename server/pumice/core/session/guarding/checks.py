"""Checks of the results of plugins' functions; an error says what is allowed."""

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

Arguments = tuple[Any, ...]


def wrong(expected: str, result: object) -> TypeError:
    text = repr(result)
    return TypeError(f"must return {expected}, not {text if len(text) < 80 else text[:77] + '...'}")


def real(result: object) -> float:
    """A number that can be compared."""
    if isinstance(result, (int, float, np.integer, np.floating)) and not isnan(result):
        return float(result) if isinstance(result, (np.integer, np.floating)) else result
    raise wrong("a number", result)


def sortable(result: object) -> object:
    """A number, or a tuple of numbers."""
    if isinstance(result, tuple):
        return tuple([sortable(part) for part in result])
    return real(result)


def row_term(result: object) -> Any:
    if not callable(getattr(result, "evaluate", None)):
        raise wrong("a term with evaluate(rows)", result)
    return result


def truth(result: object) -> bool:
    if not isinstance(result, (bool, np.bool_)):
        raise wrong("True or False", result)
    return bool(result)


def _or_none(check: Callable[..., Any]) -> Callable[..., Any]:
    """A check that also allows None; the last argument of a check is the result."""
    return lambda *checked: None if checked[-1] is None else check(*checked)


truth_or_none = _or_none(truth)


def _instance(expected: str, *types: Any) -> Callable[[object], Any]:
    """A check that the result has one of these types."""

    def check(result: object) -> Any:
        if not isinstance(result, types):
            raise wrong(expected, result)
        return result

    return check


# A value that can be compared with later ones.
hashable = _instance("a hashable value", Hashable)
text_or_none = _instance("a text or None", str, NoneType)
_reason = _instance("a Reason or None", Reason, NoneType)


def _integer(expected: str, least: float = -inf) -> Callable[[object], int]:
    """A check that the result is a whole number, and at least ``least``."""

    def check(result: object) -> int:
        is_whole = isinstance(result, (int, np.integer)) and not isinstance(result, bool)
        if not is_whole or result < least:  # type: ignore[operator]
            raise wrong(expected, result)
        return int(result)  # type: ignore[call-overload,no-any-return]

    return check


missing = _integer("a whole number")
whole = _integer("a whole number, 0 or more", 0)
time_or_none = _or_none(_integer("a time in nanoseconds or None"))
_vote = _integer("a vote: PERMIT, ABSTAIN or REJECT")


def _tasks(offered: Iterable[Task], result: object) -> list[Task]:
    """Only tasks that the plugin was called with, each once."""
    uids = {task.uid for task in offered}
    if not isinstance(result, (list, tuple)):
        raise wrong("a list of tasks", result)
    for task in result:
        if not isinstance(task, Task) or task.uid not in uids:
            raise wrong("tasks that it was called with", task)
        uids.remove(task.uid)
    return list(result)


def _victims(offered: Iterable[Task], result: object) -> tuple[list[Task], int]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise wrong("a list of tasks and a vote", result)
    return _tasks(offered, result[0]), _vote(result[1])


def _array(rows: Sized, result: object) -> Any:
    """A finite number for every row that the function was called with."""
    if not isinstance(result, np.ndarray) or result.shape != (len(rows),):
        raise wrong(f"an array of {len(rows)} numbers", result)
    if not np.issubdtype(result.dtype, np.number) or not np.isfinite(result).all():
        raise wrong("finite numbers", result)
    return result


def _refusals(nodes: Sized, result: object) -> tuple[Refusal, ...]:
    if not isinstance(result, Iterable) or isinstance(result, (str, bytes, Mapping)):
        raise wrong("refusals", result)
    refusals = tuple(result)
    for refusal in refusals:
        if not isinstance(refusal, Refusal):
            raise wrong("refusals", refusal)
        rows: object = refusal.rows
        count = len(nodes)
        if not isinstance(rows, np.ndarray) or rows.shape != (count,) or rows.dtype != np.bool_:
            raise wrong(f"refusals with a mask of {count} rows", rows)
    return refusals


def scores_of(count: int, result: object) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An array of ``count`` numbers."""
    if not isinstance(result, np.ndarray) or result.shape != (count,):
        raise wrong(f"an array of {count} numbers", result)
    if result.dtype.kind not in "iuf" or np.isnan(result).any():
        raise wrong(f"an array of {count} numbers", result)
    return result.astype(np.float64)


def _hyper_node_scores(known: Iterable[str], result: object) -> dict[str, float]:
    if not isinstance(result, dict) or not result.keys() <= set(known):
        raise wrong("scores by the HyperNodes that it was called with", result)
    return {name: real(score) for name, score in result.items()}


def _gradient(result: object) -> list[list[str]]:
    if not isinstance(result, list) or not all(isinstance(tier, list) for tier in result):
        raise wrong("lists of HyperNode names", result)
    if not all(isinstance(name, str) for tier in result for name in tier):
        raise wrong("lists of HyperNode names", result)
    return result


def _best_node(known: Mapping[str, float], result: object) -> Any:
    if result is not None and result not in known:
        raise wrong("one of the nodes that it was called with, or None", result)
    return text_or_none(result)


# The checks of points whose results must match one of the arguments, and the index of that argument;
# None: the result is about all nodes.
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
    "node_predicate": lambda result: (
        result if isinstance(result, Refusal) else text_or_none(result)
    ),
    "why_not_valid": _reason,
    **dict.fromkeys(("job_pipelined", "sub_job_pipelined", "job_enqueueable"), _vote),
    **dict.fromkeys(_YES_OR_NO, truth),
    "job_enqueued": lambda _result: None,
    "job_gradient": _gradient,
    "sub_job_gradient": _gradient,
}


def check_of(point: str, table: NodeTable) -> Callable[[Arguments, Any], Any]:
    """The check of a point: it gets arguments and result, and returns the result or raises TypeError."""
    if point in _SIMPLE:
        check = _SIMPLE[point]
        return lambda _arguments, result: check(result)
    match, index = _IN_CONTEXT[point]
    return lambda arguments, result: match(table if index is None else arguments[index], result)
