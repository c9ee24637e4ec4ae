"""resourcequota: what the quotas of a namespace would refuse is not let in."""

from __future__ import annotations

from typing import Any

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import PodGroup, PodGroupPhase, ResourceQuota
from pumice.core.session.hooks import PERMIT, REJECT
from tests.core.builders import NOW_NS, pod_group, queue
from tests.core.plugins.opened import Opened

CPU = 1000


def quota(name: str, hard: dict[str, int], used: dict[str, int] | None = None) -> ResourceQuota:
    return ResourceQuota(
        f"uid-{name}", "ns", name, tuple(hard.items()), tuple((used or {}).items())
    )


def wanting(name: str, **milli: int) -> PodGroup:
    asked = {key.replace("__", "."): value for key, value in milli.items()}
    return group(name, asked)


def group(name: str, asked: dict[str, int] | None) -> PodGroup:
    fields: dict[str, Any] = {}
    if asked is not None:
        counted = tuple((n, v) for n, v in asked.items() if n in ("cpu", "memory", "pods"))
        fields = {"min_resources": counted, "min_resources_milli": tuple(asked.items())}
    return pod_group(name, phase=PodGroupPhase.PENDING, **fields)


def opened(*objects: ClusterObject) -> Opened:
    return Opened(queue(), *objects, plugins=["resourcequota"], actions=("enqueue",))


def vote(session: Opened, name: str) -> int:
    return session.hooks.job_enqueueable["resourcequota"](session.job(name))


def test_a_job_without_minimum_is_permitted() -> None:
    session = opened(group("a", None), quota("q", {"cpu": 0}))
    assert vote(session, "a") == PERMIT


def test_a_namespace_without_quota_permits() -> None:
    other = ResourceQuota("uid-q", "elsewhere", "q", (("cpu", 0),))
    assert vote(opened(wanting("a", cpu=CPU), other), "a") == PERMIT


def test_used_and_requested_may_reach_the_limit_and_no_more() -> None:
    limit = quota("q", {"cpu": 4 * CPU}, {"cpu": 3 * CPU})
    session = opened(wanting("fits", cpu=CPU), wanting("over", cpu=CPU + 1), limit)
    assert vote(session, "fits") == PERMIT
    assert vote(session, "over") == REJECT


def test_names_are_compared_as_they_are_written() -> None:
    limit = quota("q", {"requests.cpu": 0, "count/pods": 0})
    session = opened(wanting("a", cpu=CPU), group("b", {"requests.cpu": 1}), limit)
    assert vote(session, "a") == PERMIT
    assert vote(session, "b") == REJECT
    counted = opened(group("c", {"count/pods": 1}), limit)
    assert vote(counted, "c") == REJECT


def test_what_is_not_asked_for_does_not_count_even_when_exceeded() -> None:
    limit = quota("q", {"memory": 1, "cpu": 10 * CPU}, {"memory": 5})
    assert vote(opened(wanting("a", cpu=CPU), limit), "a") == PERMIT


def test_every_quota_of_the_namespace_must_allow_it() -> None:
    wide, narrow = quota("q1", {"cpu": 9 * CPU}), quota("q2", {"cpu": CPU})
    assert vote(opened(wanting("a", cpu=2 * CPU), wide, narrow), "a") == REJECT


def test_jobs_let_in_by_this_session_count() -> None:
    session = opened(
        wanting("a", cpu=CPU), wanting("b", cpu=CPU), quota("q", {"cpu": CPU + CPU // 2})
    )
    assert vote(session, "b") == PERMIT
    session.hooks.job_enqueued["resourcequota"](session.job("a"))
    assert vote(session, "b") == REJECT


def test_jobs_let_in_by_earlier_sessions_are_invisible() -> None:
    session = opened(wanting("a", cpu=CPU), quota("q", {"cpu": CPU + CPU // 2}))
    session.engine.schedule(NOW_NS)
    assert session.engine.cache.jobs["ns/a"].phase is PodGroupPhase.INQUEUE
    later = opened(
        pod_group("a", min_resources=(("cpu", CPU),), min_resources_milli=(("cpu", CPU),)),
        wanting("b", cpu=CPU),
        quota("q", {"cpu": CPU + CPU // 2}),
    )
    assert vote(later, "b") == PERMIT


def test_the_event_names_amounts_without_those_of_this_session() -> None:
    session = opened(
        wanting("a", cpu=CPU),
        wanting("b", cpu=1500, memory=1000),
        quota("q", {"cpu": 2 * CPU, "memory": 10**9}, {"cpu": 500}),
    )
    session.hooks.job_enqueued["resourcequota"](session.job("a"))
    assert vote(session, "b") == REJECT
    (event,) = session.session.events
    assert (event.kind, event.name, event.reason, event.warning) == (
        "PodGroup",
        "b",
        "Unschedulable",
        False,
    )
    assert event.message == (
        "resource quota insufficient, requested: cpu=1500m, used: cpu=500m, limited: cpu=2"
    )


def test_a_refused_job_stays_pending_and_the_next_is_let_in() -> None:
    session = opened(wanting("a", cpu=3 * CPU), wanting("b", cpu=CPU), quota("q", {"cpu": CPU}))
    session.engine.schedule(NOW_NS)
    jobs = session.engine.cache.jobs
    assert jobs["ns/a"].phase is PodGroupPhase.PENDING
    assert jobs["ns/b"].phase is PodGroupPhase.INQUEUE
