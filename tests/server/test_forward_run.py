"""The engine is run forward until jobs start: when, after what, and where it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import ClusterObject
from pumice.core.registry import Registry
from pumice.server.estimating.forward_run import (
    MAX_FORWARD_SESSIONS,
    Forecast,
    ForwardRun,
    RunLimits,
    Start,
    Target,
    Verdict,
)
from pumice.server.estimating.levels import (
    LEVELS,
    MAX_UNREADABLE,
    RUN_TIME,
    Level,
    RunTimeEstimates,
    Source,
)
from pumice.server.estimating.run_times import PastRuns, Template
from pumice.server.state import ClusterState
from pumice.v1.configuration_pb2 import Configuration
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, priority_class, queue
from tests.core.strangers import explode, stranger

SECOND = 10**9
HOUR = 3600 * SECOND
OPTIMISTIC, EXPECTED, PESSIMISTIC = LEVELS
PREEMPTING = """\
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
"""


def state_of(*objects: ClusterObject | Iterable[ClusterObject], conf: str = "") -> ClusterState:
    state = ClusterState(Registry())
    assert state.configure(Configuration(scheduler_conf=conf)).accepted
    fill(state.engine, queue(), *objects)
    return state


def running(name: str, cpu: float, on: str, run_time: str = "", since: int = 0) -> list[Any]:
    """A job of one pod that runs, with an annotation."""
    annotations = {RUN_TIME: run_time} if run_time else {}
    held = pod(f"{name}-0", name, cpu, on=on, annotations=annotations)
    return [pod_group(name), replace(held, start_time_ns=NOW_NS - since * SECOND)]


def forecast(
    state: ClusterState,
    *jobs: str,
    level: Level = EXPECTED,
    past: PastRuns | None = None,
    **limits: Any,
) -> Forecast:
    made = RunLimits(**{"horizon_ns": 24 * HOUR, **limits})
    estimates = RunTimeEstimates(past or PastRuns(), level)
    targets = [Target(f"ns/{name}") for name in jobs]
    return ForwardRun(state, estimates, NOW_NS, made).run(targets)


def start_of(found: Forecast, name: str) -> Start:
    return found.starts[Target(f"ns/{name}")]


def seconds(start: Start) -> float:
    return (start.at_ns - NOW_NS) / SECOND


def test_a_job_starts_when_the_pod_before_it_ends() -> None:
    state = state_of(node("n1", cpu=4), running("first", 4, "n1", "10m"), job("next", 2, 2))
    found = forecast(state, "next")
    start = start_of(found, "next")
    assert start.verdict is Verdict.STARTS
    assert seconds(start) == pytest.approx(600, rel=0.02)
    # Its own pods count, too: jobs after it would wait for them.
    assert found.sources == {Source.ANNOTATION: 1, Source.ASSUMED: 2}


def test_the_time_that_a_pod_has_run_counts() -> None:
    state = state_of(
        node("n1", cpu=4), running("first", 4, "n1", "10m", since=540), job("next", 1, 4)
    )
    assert seconds(start_of(forecast(state, "next"), "next")) == pytest.approx(60, rel=0.05)


def test_one_job_waits_for_another_that_waits() -> None:
    state = state_of(
        node("n1", cpu=4),
        running("first", 4, "n1", "10m"),
        job("a", 1, 4, annotations={RUN_TIME: "20m"}),
        job("b", 1, 4),
    )
    found = forecast(state, "a", "b")
    assert seconds(start_of(found, "a")) == pytest.approx(600, rel=0.02)
    assert seconds(start_of(found, "b")) == pytest.approx(1800, rel=0.03)


def test_a_job_that_runs_has_started() -> None:
    state = state_of(node("n1", cpu=4), job("runs", 2, on="n1"))
    found = forecast(state, "runs")
    assert start_of(found, "runs") == Start(Verdict.STARTED, NOW_NS)
    assert found.sessions == 0


def test_a_gang_starts_with_its_minimum() -> None:
    state = state_of(node("n1", cpu=4), running("first", 2, "n1", "1h"), job("half", 4, minimum=2))
    start = start_of(forecast(state, "half"), "half")
    assert (start.verdict, seconds(start)) == (Verdict.STARTS, 0)


def test_a_pod_starts_after_the_minimum_of_its_gang() -> None:
    state = state_of(node("n1", cpu=4), running("first", 2, "n1", "1h"), job("half", 3, minimum=2))
    target = Target("ns/half", "uid-half-2")
    limits = RunLimits(24 * HOUR)
    run = ForwardRun(state, RunTimeEstimates(PastRuns(), EXPECTED), NOW_NS, limits)
    start = run.run([target]).starts[target]
    assert start.verdict is Verdict.STARTS
    assert seconds(start) == pytest.approx(3600, rel=0.02)


def test_a_job_that_fits_nowhere_never_starts() -> None:
    state = state_of(node("n1", cpu=4), running("first", 4, "n1", "10m"), job("large", 1, 8))
    start = start_of(forecast(state, "large"), "large")
    assert start.verdict is Verdict.NEVER
    assert start.reasons


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "Node"])
def test_a_job_behind_a_service_never_starts(kind: str) -> None:
    service = replace(pod("web-0", "web", 4, on="n1", controller_kind=kind), start_time_ns=NOW_NS)
    state = state_of(node("n1", cpu=4), pod_group("web"), service, job("next", 1, 4))
    found = forecast(state, "next")
    assert start_of(found, "next").verdict is Verdict.NEVER
    assert found.sources == {Source.ENDLESS: 1}


def test_a_group_without_pods_never_starts() -> None:
    found = forecast(state_of(node("n1"), pod_group("empty", 2)), "empty")
    assert start_of(found, "empty").verdict is Verdict.NEVER


def test_nothing_is_said_about_the_time_after_the_horizon() -> None:
    state = state_of(node("n1", cpu=4), running("first", 4, "n1", "30h"), job("next", 1, 4))
    start = start_of(forecast(state, "next"), "next")
    assert (start.verdict, seconds(start)) == (Verdict.LATER, 24 * 3600)
    assert start.reasons


def test_a_run_is_limited_in_sessions_and_says_how_far_it_came() -> None:
    many = [
        item for number in range(20) for item in running(f"r{number}", 0.1, "n1", f"{number + 1}h")
    ]
    state = state_of(node("n1", cpu=4), many, job("next", 1, 4))
    start = start_of(forecast(state, "next", sessions=5), "next")
    assert start.verdict is Verdict.UNDECIDED
    assert 0 < seconds(start) < 20 * 3600
    assert MAX_FORWARD_SESSIONS >= 1000


def test_a_run_ends_when_its_time_is_over() -> None:
    state = state_of(node("n1", cpu=4), running("first", 4, "n1", "1h"), job("next", 1, 4))
    found = forecast(state, "next", is_late=lambda: True)
    assert (start_of(found, "next").verdict, found.sessions) == (Verdict.UNDECIDED, 0)


def test_a_day_with_an_end_every_second_is_run_in_few_sessions() -> None:
    many = [
        item
        for number in range(300)
        for item in running(f"r{number:03d}", 0.01, "n1", f"{60 + number}m")
    ]
    state = state_of(node("n1", cpu=4, pods=1000), many, job("next", 1, 4))
    found = forecast(state, "next")
    assert start_of(found, "next").verdict is Verdict.STARTS
    assert found.sessions < 220


def test_evicted_pods_come_back_and_wait() -> None:
    state = state_of(
        node("n1", cpu=4),
        priority_class("high", 100),
        job("low", 2, 2, minimum=1, on="n1", preemptable=True),
        pod_group("urgent", priority_class_name="high", annotations={RUN_TIME: "5m"}),
        pod("urgent-0", "urgent", 2, priority=100),
        conf=PREEMPTING,
    )
    found = forecast(state, "urgent", "low")
    assert start_of(found, "low").verdict is Verdict.STARTED
    assert seconds(start_of(found, "urgent")) == pytest.approx(EXPECTED.grace_ns / SECOND, abs=1)
    assert any("~" in uid for uid in state.engine.cache.tasks)


def test_the_same_state_gives_the_same_forecast() -> None:
    def made() -> Forecast:
        jobs = [item for number in range(6) for item in job(f"j{number}", 2, 1.5)]
        state = state_of(node("n1"), node("n2"), running("first", 4, "n1", "10m"), jobs)
        return forecast(state, *(f"j{number}" for number in range(6)))

    assert made() == made()


@pytest.mark.parametrize(
    ("run_time", "since", "verdict"),
    [
        # A clock that is ahead, and run times at both ends of what a duration can be.
        ("10m", -3600, Verdict.STARTS),
        ("1ns", 0, Verdict.STARTS),
        ("2562047h", 0, Verdict.LATER),
        # Much longer than its annotation.
        ("1s", 10**8, Verdict.LATER),
    ],
)
def test_odd_times_are_run(run_time: str, since: int, verdict: Verdict) -> None:
    state = state_of(
        node("n1", cpu=4), running("first", 4, "n1", run_time, since=since), job("next", 1, 4)
    )
    assert start_of(forecast(state, "next"), "next").verdict is verdict


def test_decisions_on_their_way_count_as_applied() -> None:
    state = state_of(
        node("n1", cpu=4),
        job("decided", 1, 4, annotations={RUN_TIME: "10m"}),
    )
    assert state.session(NOW_NS).decisions
    fill(state.engine, job("next", 1, 4))
    found = forecast(state, "decided", "next")
    assert start_of(found, "decided").verdict is Verdict.STARTED
    assert seconds(start_of(found, "next")) == pytest.approx(600, rel=0.02)


def test_a_plugin_that_fails_in_a_run_is_named() -> None:
    state = ClusterState(Registry([stranger(close=explode)]))
    conf = f"{PREEMPTING}  - name: stranger\n"
    assert state.configure(Configuration(scheduler_conf=conf)).accepted
    fill(state.engine, queue(), node("n1", cpu=4), running("a", 4, "n1", "1m"), job("b", 1, 4))
    found = forecast(state, "b")
    assert start_of(found, "b").verdict is Verdict.STARTS
    assert found.faults == ("stranger: ValueError: out of cheese",)


def test_a_plugin_that_wakes_without_end_does_not_run_without_end() -> None:
    always = stranger(next_wake=lambda _, now_ns: now_ns)
    state = ClusterState(Registry([always]))
    conf = f"{PREEMPTING}  - name: stranger\n"
    assert state.configure(Configuration(scheduler_conf=conf)).accepted
    fill(state.engine, queue(), node("n1", cpu=4), job("large", 1, 9))
    found = forecast(state, "large")
    assert start_of(found, "large").verdict is Verdict.LATER
    assert found.sessions < MAX_FORWARD_SESSIONS


def test_a_copy_is_run_and_the_state_stays() -> None:
    state = state_of(node("n1", cpu=4), running("first", 4, "n1", "10m"), job("next", 1, 4))
    before = state.engine.checkpoint()
    assert start_of(forecast(state.copy(), "next"), "next").verdict is Verdict.STARTS
    assert state.engine.checkpoint() == before


# Run times.

TEMPLATE = Template("ns", "default", "train", "")


def estimate(level: Level, runs: tuple[int, ...], elapsed: int = 0, **fields: Any) -> Any:
    past = PastRuns({TEMPLATE: tuple(run * SECOND for run in runs)} if runs else {})
    held = pod("train-7-0", "train-7", **fields)
    return RunTimeEstimates(past, level).of(held, "default", None, elapsed * SECOND)


def test_levels_are_ordered() -> None:
    runs = tuple(range(10, 60))
    short, likely, long = (estimate(level, runs).left_ns for level in LEVELS)
    assert short < likely < long
    assert estimate(EXPECTED, runs).source is Source.HISTORY


def test_one_earlier_run_is_no_certainty() -> None:
    short, likely, long = (estimate(level, (100,)).left_ns / SECOND for level in LEVELS)
    assert (short, likely, long) == (50, 100, 200)


def test_shorter_runs_say_nothing_about_a_pod_that_ran_longer() -> None:
    left = estimate(EXPECTED, (10, 20, 100), elapsed=50)
    assert left.source is Source.HISTORY
    assert left.left_ns == 50 * SECOND
    longest = estimate(EXPECTED, (10, 20, 100), elapsed=200)
    assert longest.source is Source.ASSUMED
    assert longest.left_ns > 0


def test_the_annotation_of_the_pod_comes_before_that_of_the_group_and_both_before_history() -> None:
    held = pod("train-7-0", "train-7", annotations={RUN_TIME: "1m"})
    group = pod_group("train-7", annotations={RUN_TIME: "1h"})
    estimates = RunTimeEstimates(PastRuns({TEMPLATE: (SECOND,)}), EXPECTED)
    assert estimates.of(held, "default", group).left_ns == 60 * SECOND
    assert estimates.of(replace(held, annotations={}), "default", group).left_ns == HOUR


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0s", "5", "1y", "9" * 2000])
def test_an_annotation_that_is_no_duration_has_no_effect_and_is_named(text: str) -> None:
    estimates = RunTimeEstimates(PastRuns(), EXPECTED)
    held = pod("a-0", "a", annotations={RUN_TIME: text})
    assert estimates.of(held, "default", None).source is Source.ASSUMED
    assert estimates.unreadable == {"pod ns/a-0": text}


def test_only_some_unreadable_annotations_are_named() -> None:
    estimates = RunTimeEstimates(PastRuns(), EXPECTED)
    for number in range(MAX_UNREADABLE + 5):
        held = pod(f"a-{number}", "a", annotations={RUN_TIME: "soon"})
        estimates.of(held, "default", None)
    assert len(estimates.unreadable) == MAX_UNREADABLE
