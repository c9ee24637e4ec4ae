"""The nodes on which evictions are tried: whose refusals could be cured, and what is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pumice.core.actions.preempt import PreemptRun
from pumice.core.model.fit import FitErrors, Mask, Refusal
from pumice.core.model.pod import HostPort
from pumice.core.model.selectors import Taint, TaintEffect
from pumice.core.session.evicting import EvictingRun, frees_enough
from pumice.core.session.feasibility.filters import Feasibility
from pumice.core.session.session import Session
from tests.core.builders import node, pod, pod_group, queue
from tests.core.evicting import PLAIN, engine, opened

PORT = {"host_ports": (HostPort("TCP", "0.0.0.0", 80),)}


def cluster(**arguments: Any) -> Session:
    return opened(
        engine(
            "preempt",
            PLAIN,
            node("n0", 2),
            node("n1", 2, pods=1),
            node("n2", 2, taints=(Taint("k", "v", TaintEffect.NO_SCHEDULE),)),
            node("n3", 2, unschedulable=True),
            queue(),
            pod_group("a", 0),
            pod_group("b", 0),
            pod("a-0", "a", on="n0", spec=PORT),
            pod("a-1", "a", on="n1"),
            pod("b-0", "b", spec=PORT, role="w"),
            pod("b-1", "b", spec=PORT, role="w"),
            pod("b-2", "b", spec=PORT, role="x"),
            pod("b-3", "b", spec=PORT),
            pod("b-4", "b", spec=PORT),
            pod("c-0", "a", spec=PORT, role="w"),
            pod("d-0", "b", 3),
            **arguments,
        )
    )


def nodes_for(nodes: EvictingRun, session: Session, name: str) -> list[int]:
    task = session.cache.tasks[f"uid-{name}"]
    assert session.feasibility.why_not_anywhere(task) is None
    return np.flatnonzero(nodes.nodes_for(task, session.view(task))).tolist()


def test_ports_and_numbers_of_pods_can_be_cured_taints_cannot() -> None:
    session = cluster()
    assert nodes_for(PreemptRun(session, "preempt"), session, "b-0") == [0, 1]
    task = session.cache.tasks["uid-b-0"]
    view = session.view(task)
    assert not session.feasibility.allows(task, view).any()
    reasons = [session.feasibility.refused_by(task, view, row) for row in range(4)]
    assert [
        [(refusal.reason, refusal.unresolvable) for refusal in found]
        for found in reasons
        if isinstance(found, list)
    ] == [
        [("node(s) didn't have free ports for the requested pod ports", False)],
        [("node(s) pod number exceeded", False)],
        [("node(s) had untolerated taint(s)", True)],
        [("node(s) were unschedulable", True)],
    ]


def test_a_plugin_that_fails_before_hides_what_later_ones_say() -> None:
    session = cluster(predicateErrorCacheEnable=False)
    everywhere = np.ones(4, dtype=np.bool_)
    session.hooks.task_predicate["nodeorder"] = lambda _: (Refusal("no", everywhere, True),)
    session.hooks.task_predicate["priority"] = lambda task: (
        (Refusal("maybe", everywhere, False),) if task.name == "b-0" else None
    )
    nodes = PreemptRun(session, "preempt")
    assert nodes_for(nodes, session, "b-0") == [0, 1, 2, 3]
    # On n1 the number of pods speaks first, and that could be cured.
    assert nodes_for(nodes, session, "d-0") == [1]


def test_an_error_of_a_plugin_is_no_refusal() -> None:
    session = cluster(predicateErrorCacheEnable=False)
    session.hooks.node_predicate["nodeorder"] = lambda _task, name: (
        "broken" if name == "n0" else None
    )
    task = session.cache.tasks["uid-d-0"]
    view = session.view(task)
    assert session.feasibility.refused_by(task, view, 0) == "broken"
    assert session.feasibility.refused_by(task, view, 1) != "broken"
    assert nodes_for(PreemptRun(session, "preempt"), session, "d-0") == [1]


class _Changing:
    """Predicates that answer something else each time."""

    def __init__(self, patch: pytest.MonkeyPatch, *answers: str) -> None:
        self._answers = list(answers)
        patch.setattr(Feasibility, "resolvable_by_eviction", lambda *_: self._next())

    def _next(self) -> Mask:
        return np.array([letter == "y" for letter in self._answers.pop(0)], dtype=np.bool_)


@pytest.mark.parametrize(
    ("names", "remembers", "second"),
    [
        pytest.param(("b-0", "b-1"), True, [2], id="of one role, refused once is refused"),
        pytest.param(("b-0", "b-1"), False, [0, 2], id="unless it is switched off"),
        pytest.param(("b-0", "b-2"), True, [0, 2], id="another role is asked anew"),
        pytest.param(("b-0", "c-0"), True, [0, 2], id="another job as well"),
        pytest.param(("b-3", "b-4"), True, [0, 2], id="without a role nothing is remembered"),
    ],
)
def test_refusals_are_remembered_for_the_whole_action(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, str], remembers: bool, second: list[int]
) -> None:
    session = cluster(predicateErrorCacheEnable=remembers)
    _Changing(monkeypatch, "nyyn", "yyny", "yyyy")
    session.hooks.task_predicate.clear()
    nodes = PreemptRun(session, "preempt")
    assert nodes_for(nodes, session, names[0]) == [1, 2]
    monkeypatch.undo()
    _Changing(monkeypatch, "ynyn")
    assert nodes_for(nodes, session, names[1]) == second


def test_nodes_found_hopeless_earlier_in_the_session_are_left_out_and_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = cluster()
    hopeless = np.array([True, False, False, False])
    session.jobs["ns/b"].fit_errors["uid-b-0"] = FitErrors(4, (("why", 1),), hopeless)
    _Changing(monkeypatch, "nyyy", "yyyy")
    nodes = PreemptRun(session, "preempt")
    assert nodes_for(nodes, session, "b-0") == [1, 2, 3]
    # Only that very task is concerned: what was not asked is not remembered for the role.
    assert nodes_for(nodes, session, "b-1") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "row", "victims", "enough"),
    [
        ("d-0", 0, ("a-0",), False),
        ("b-0", 0, (), True),
        ("b-0", 1, (), False),
        ("b-0", 1, ("a-1",), True),
    ],
)
def test_victims_and_what_will_be_free_must_do(
    name: str, row: int, victims: tuple[str, ...], enough: bool
) -> None:
    session = cluster()
    tasks: dict[str, Any] = session.cache.tasks
    view = session.view(tasks[f"uid-{name}"])
    found = [tasks[f"uid-{victim}"] for victim in victims]
    assert frees_enough(session, view, row, found) is enough
