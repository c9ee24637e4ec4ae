"""extender: what has no answer waits, answers decide, and failures do what the table says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumice.core.configuration import Arguments, Configuration, PluginOptions
from pumice.core.decisions import Bind, Evict, SessionResult
from pumice.core.deltas import ClusterObject, DataReported
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase
from pumice.core.plugins.extender import WAITING
from pumice.core.plugins.extender.answers import MAX_AGE_SECONDS
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, priority_class, queue

SECOND = 10**9
URL = "http://extender:80/"


class Asked:
    """An engine with the extender, and the extender's answers."""

    def __init__(self, *objects: Any, actions: str = "allocate", **verbs: Any) -> None:
        given = {"extender.urlPrefix": URL}
        for key, value in verbs.items():
            given[f"extender.{key}"] = value
        tier = (
            PluginOptions("priority"),
            PluginOptions("gang"),
            PluginOptions("predicates"),
            PluginOptions("extender", arguments=Arguments(given)),
        )
        self.engine = fill(Engine(Configuration(tuple(actions.split()), (tier,))), *objects)
        self.now_ns = NOW_NS

    def answer(self, name: str, body: Any = None, error: str = "") -> None:
        values: dict[str, str | float] = {"time": self.now_ns / SECOND}
        if error:
            values["error"] = error
        else:
            values["answer"] = body if isinstance(body, str) else json.dumps(body)
        self.engine.apply([DataReported("extender", name, values)])

    def session(self, later_s: int = 1) -> SessionResult:
        self.now_ns += later_s * SECOND
        return self.engine.schedule(self.now_ns)


def binds(result: SessionResult) -> dict[str, str]:
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


def names(result: SessionResult) -> list[str]:
    return [question.name for question in result.questions]


def reasons(result: SessionResult) -> set[str]:
    return {n.reason for wait in result.waits for r in wait.reasons for n in r.nodes}


SMALL: list[ClusterObject] = [queue(), node("n1"), node("n2"), *job("a", 1)]


def test_a_task_waits_until_the_extender_has_answered_about_a_node() -> None:
    asked = Asked(*SMALL, predicateVerb="filter")
    first = asked.session()
    assert binds(first) == {}
    assert names(first) == ["filter/uid-a-0/n1", "filter/uid-a-0/n2"]
    assert reasons(first) == {WAITING}
    (question, _) = first.questions
    assert (question.url, question.timeout_ns) == ("http://extender:80/filter", SECOND)
    body = json.loads(question.body)
    assert (body["task"]["Name"], body["task"]["Resreq"]["MilliCPU"]) == ("a-0", 1000.0)
    assert (body["node"]["Name"], body["node"]["Idle"]["MilliCPU"]) == ("n1", 4000.0)
    asked.answer("filter/uid-a-0/n1", {"status": "no license", "code": 3})
    asked.answer("filter/uid-a-0/n2", {"status": ""})
    assert binds(asked.session()) == {"a-0": "n2"}


def test_without_an_answer_the_question_is_asked_again() -> None:
    asked = Asked(*SMALL, predicateVerb="filter")
    first = asked.session()
    assert asked.engine.next_wake(asked.now_ns) == asked.now_ns + 5 * SECOND
    assert names(asked.session(5)) == names(first)


def test_an_answer_counts_for_a_while_and_is_asked_for_again_before_it_ends() -> None:
    age = int(MAX_AGE_SECONDS)
    plugin = Asked(*SMALL, predicateVerb="filter")
    plugin.answer("filter/uid-a-0/n1", {"status": "no", "code": 2})
    plugin.answer("filter/uid-a-0/n2", {"status": "no", "code": 2})
    assert names(plugin.session(1)) == []
    assert reasons(plugin.session(age // 2)) == {"no"}
    assert len(names(plugin.session(0))) == 2
    assert reasons(plugin.session(age)) == {WAITING}


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ({"status": ""}, True),
        ({}, True),
        ({"status": 7}, True),
        ({"status": "no", "code": 2}, False),
        ("[]", False),
        ("not json", False),
        ("null", False),
    ],
)
def test_answers_are_read_with_care(body: Any, fits: bool) -> None:
    asked = Asked(queue(), node("n1"), *job("a", 1), predicateVerb="filter")
    asked.answer("filter/uid-a-0/n1", body)
    assert binds(asked.session()) == ({"a-0": "n1"} if fits else {})


@pytest.mark.parametrize("ignorable", [True, False])
def test_a_failed_predicate_lets_pass_where_it_is_ignorable(ignorable: bool) -> None:
    asked = Asked(queue(), node("n1"), *job("a", 1), predicateVerb="f", ignorable=ignorable)
    asked.answer("f/uid-a-0/n1", error="timeout")
    result = asked.session()
    assert binds(result) == ({"a-0": "n1"} if ignorable else {})
    if not ignorable:
        assert reasons(result) == {"the extender failed: timeout"}


def test_scores_choose_among_nodes_and_nonsense_counts_nothing() -> None:
    asked = Asked(*SMALL, node("n3"), prioritizeVerb="score")
    assert reasons(asked.session()) == {WAITING}
    scores = {"n1": "high", "n2": 5.5, "n3": 1e300, "other": 99}
    asked.answer("score/uid-a-0", {"nodeScore": scores})
    assert binds(asked.session()) == {"a-0": "n2"}


@pytest.mark.parametrize("body", [{"errorMessage": "broken"}, {}, {"nodeScore": [1]}])
def test_scoring_that_fails_leaves_the_task_waiting(body: Any) -> None:
    asked = Asked(*SMALL, prioritizeVerb="score", ignorable=True)
    asked.answer("score/uid-a-0", body)
    assert binds(asked.session()) == {}


def test_only_managed_resources_concern_the_extender() -> None:
    managed = ["example.com/gpu"]
    asked = Asked(*SMALL, predicateVerb="f", allocateFuncVerb="a", managedResources=managed)
    result = asked.session()
    assert binds(result) == {"a-0": "n1"}
    assert names(result) == []


def test_a_job_waits_for_the_vote_of_the_extender() -> None:
    group = pod_group("b", phase=PodGroupPhase.PENDING, min_resources=(("cpu", 1000),))
    asked = Asked(queue(), node("n1"), group, actions="enqueue allocate", jobEnqueueableVerb="let")
    first = asked.session()
    assert names(first) == ["let/ns/b"]
    assert {r.code.value for w in first.waits for r in w.reasons} >= {"extender-waits"}
    asked.answer("let/ns/b", {"status": 1})
    asked.session()
    assert asked.engine.cache.jobs["ns/b"].phase is PodGroupPhase.INQUEUE


@pytest.mark.parametrize(("ready", "bound"), [(True, 1), (False, 0)])
def test_a_job_starts_when_the_extender_calls_it_ready(ready: bool, bound: int) -> None:
    asked = Asked(queue(), node("n1"), *job("a", 1), jobReadyVerb="ready")
    for name in names(asked.session()):
        asked.answer(name, {"status": ready})
    assert len(binds(asked.session())) == bound


@pytest.mark.parametrize(("overused", "bound"), [(True, 0), (False, 1)])
def test_a_queue_that_is_overused_gets_nothing(overused: bool, bound: int) -> None:
    asked = Asked(queue(), node("n1"), *job("a", 1), queueOverusedVerb="over")
    assert binds(asked.session()) == {}
    asked.answer("over/default", {"overused": overused})
    assert len(binds(asked.session())) == bound


def test_a_placement_is_made_when_the_extender_agrees() -> None:
    asked = Asked(queue(), node("n1"), *job("a", 1), allocateFuncVerb="place")
    first = asked.session()
    assert binds(first) == {}
    assert names(first) == ["place/uid-a-0/n1"]
    asked.answer("place/uid-a-0/n1", {"errorMessage": ""})
    assert binds(asked.session()) == {"a-0": "n1"}


def test_a_gang_is_asked_about_whole_and_placed_whole() -> None:
    asked = Asked(
        queue(), node("n1"), node("n2"), *job("a", 5), predicateVerb="f", allocateFuncVerb="p"
    )
    first = asked.session()
    assert len(names(first)) == 10
    for name in names(first):
        asked.answer(name, {"status": ""})
    second = asked.session()
    assert second.decisions == ()
    assert len(names(second)) == 5
    for name in names(second):
        asked.answer(name, {})
    assert len(binds(asked.session())) == 5


def test_a_placement_that_the_extender_refuses_leaves_the_gang_waiting_whole() -> None:
    asked = Asked(queue(), node("n1"), *job("a", 3), allocateFuncVerb="p")
    for number, name in enumerate(sorted(names(asked.session()))):
        asked.answer(name, {"errorMessage": "full" if number == 1 else ""})
    assert binds(asked.session()) == {}


def test_best_effort_pods_wait_for_their_answer_too() -> None:
    objects = [queue(), node("n1"), pod_group("a"), pod("a-0", "a", 0, 0)]
    asked = Asked(*objects, actions="allocate backfill", allocateFuncVerb="p")
    (name,) = names(first := asked.session())
    assert binds(first) == {}
    asked.answer(name, {})
    assert binds(asked.session()) == {"a-0": "n1"}


def test_victims_are_evicted_only_when_named_and_only_candidates() -> None:
    low = job("low", 2, 2, on="n1", minimum=0)
    high = job("high", 1, 2, priority_class_name="high")
    asked = Asked(
        queue(), node("n1"), priority_class("high", 9), *low, *high,
        actions="allocate preempt", preemptableVerb="evict",
    )  # fmt: skip
    first = asked.session()
    assert not [d for d in first.decisions if isinstance(d, Evict)]
    (name,) = names(first)
    victims = [{"UID": "uid-low-1"}, {"UID": "uid-high-0"}, {"UID": 7}, None]
    asked.answer(name, {"status": 1, "victims": victims})
    evicted = [d.name for d in asked.session().decisions if isinstance(d, Evict)]
    assert evicted == ["low-1"]


def test_a_session_asks_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.core.plugins.extender.answers.MAX_QUESTIONS", 3)
    nodes = [node(f"n{i}") for i in range(9)]
    asked = Asked(queue(), *nodes, *job("a", 1), predicateVerb="f")
    seen: set[str] = set()
    for _ in range(3):
        for name in names(asked.session()):
            seen.add(name)
            asked.answer(name, {"status": "no", "code": 2})
    assert len(seen) == 9


def test_a_question_that_is_too_long_counts_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.core.plugins.extender.answers.MAX_BODY", 10)
    asked = Asked(queue(), node("n1"), *job("a", 1), predicateVerb="f", ignorable=True)
    result = asked.session()
    assert names(result) == []
    assert binds(result) == {"a-0": "n1"}


def test_the_end_of_a_session_is_told() -> None:
    asked = Asked(*SMALL, onSessionCloseVerb="close")
    (question,) = asked.session().questions
    assert (question.name, question.needs_answer) == ("close/1/close", False)


@pytest.mark.parametrize("ignorable", [True, False])
def test_while_on_session_open_fails_no_verb_is_used(ignorable: bool) -> None:
    asked = Asked(*SMALL, onSessionOpenVerb="open", predicateVerb="f", ignorable=ignorable)
    asked.answer("open/session", error="away")
    result = asked.session()
    assert bool(binds(result)) is not ignorable
