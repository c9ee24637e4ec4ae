"""sla: a job that has waited long enough is let in, and keeps what it was promised."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.core.configuration import read_configuration
from pumice.core.deltas import ClusterObject
from pumice.core.errors import ConfigurationError
from pumice.core.model.group import PodGroupPhase
from pumice.core.registry import Registry
from pumice.core.session.hooks import ABSTAIN, PERMIT
from tests.core.builders import NOW_NS, job, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, minimum, options

SECOND = 10**9
HOUR = 3600 * SECOND


def waiting(name: str, age_ns: int, own_ns: int | None = None, **fields: Any) -> ClusterObject:
    fields.setdefault("phase", PodGroupPhase.PENDING)
    created = NOW_NS - age_ns
    return pod_group(name, creation_time_ns=created, sla_waiting_time_ns=own_ns, **fields)


def opened(*objects: ClusterObject, bound: str = "") -> Opened:
    arguments = {"sla-waiting-time": bound} if bound else {}
    return Opened(queue(), *objects, plugins=[options("sla", **arguments)])


@pytest.mark.parametrize(
    ("age_ns", "own_ns", "bound", "vote"),
    [
        (10 * HOUR, None, "", ABSTAIN),  # nobody set a bound
        (HOUR - 1, None, "1h", ABSTAIN),  # not yet
        (HOUR, None, "1h", PERMIT),  # exactly due
        (HOUR + 1, None, "1h", PERMIT),
        (HOUR, 2 * HOUR, "1h", ABSTAIN),  # its own bound counts
        (2 * HOUR, 2 * HOUR, "1h", PERMIT),
        (SECOND, SECOND, "", PERMIT),
        (SECOND, SECOND, "1000000h", PERMIT),
    ],
)
def test_a_job_is_permitted_once_it_is_due(
    age_ns: int, own_ns: int | None, bound: str, vote: int
) -> None:
    session = opened(waiting("a", age_ns, own_ns), bound=bound)
    assert session.hooks.job_enqueueable["sla"](session.job("a")) == vote
    assert session.hooks.job_pipelined["sla"](session.job("a")) == vote


@pytest.mark.parametrize("bound", ["", "1", "1x", "one hour", "0s", "-5m", 3600])
def test_a_bound_that_makes_no_sense_is_refused(bound: object) -> None:
    entry = {"name": "sla", "arguments": {"sla-waiting-time": bound}}
    data = {"actions": "enqueue", "tiers": [{"plugins": [entry]}]}
    with pytest.raises(ConfigurationError, match="sla-waiting-time"):
        read_configuration(data, Registry().catalog())


def test_jobs_with_a_bound_come_first_and_the_earlier_due_one_before_the_later() -> None:
    session = opened(
        waiting("never", 9 * HOUR),
        waiting("early", HOUR, 2 * HOUR),
        waiting("late", 2 * HOUR, 4 * HOUR),
        waiting("early-too", 2 * HOUR, 3 * HOUR),
    )
    order = session.hooks.job_order["sla"]
    job_ = session.job
    assert order(job_("early"), job_("never")) == -1
    assert order(job_("never"), job_("early")) == 1
    assert order(job_("early"), job_("late")) == -1
    assert order(job_("late"), job_("early")) == 1
    assert order(job_("early"), job_("early-too")) == 0
    assert order(job_("never"), job_("never")) == 0


def enqueues(tiers: list[list[str]], bound: str) -> bool:
    """Whether a job that asks for more than the inflated cluster holds is let in."""
    plugins = [
        [
            {"name": n, "arguments": {"sla-waiting-time": bound}} if n == "sla" else {"name": n}
            for n in tier
        ]
        for tier in tiers
    ]
    data = {"actions": "enqueue", "tiers": [{"plugins": tier} for tier in plugins]}
    big = waiting("a", 2 * HOUR, min_resources=minimum(100))
    session = Opened(node("n1", 4), queue(), big, plugins=[])
    session.engine.configure(read_configuration(data, Registry().catalog()))
    session.engine.schedule(NOW_NS)
    return session.engine.cache.jobs["ns/a"].phase is PodGroupPhase.INQUEUE


def test_a_permit_overrides_later_tiers_only() -> None:
    assert not enqueues([["overcommit"]], "1h")
    assert enqueues([["sla"], ["overcommit"]], "1h")
    assert not enqueues([["sla"], ["overcommit"]], "3h")
    assert not enqueues([["sla", "overcommit"]], "1h")
    assert not enqueues([["overcommit"], ["sla"]], "1h")


def test_before_gang_an_overdue_incomplete_gang_keeps_its_room() -> None:
    def binds(age_ns: int) -> list[str]:
        # The old gang lacks a node; the young job would fit where half of the gang is.
        old = pod_group("old", 2, creation_time_ns=NOW_NS - age_ns)
        session = Opened(
            node("n1", 4),
            queue(),
            old,
            pod("old-0", "old", 4),
            pod("old-1", "old", 4),
            *job("young", 1, 4, creation_time_ns=NOW_NS),
            plugins=[],
        )
        entry = {"name": "sla", "arguments": {"sla-waiting-time": "1h"}}
        tiers = [{"plugins": [entry]}, {"plugins": [{"name": "gang"}, {"name": "predicates"}]}]
        data = {"actions": "allocate", "tiers": tiers}
        session.engine.configure(read_configuration(data, Registry().catalog()))
        return [str(d) for d in session.engine.schedule(NOW_NS).decisions]

    assert binds(HOUR // 2) == ["bind young-0 n1"]
    assert binds(2 * HOUR) == []


def wake(session: Opened) -> int | None:
    return session.plugins["sla"].next_wake(NOW_NS)  # type: ignore[attr-defined, no-any-return]


def test_it_wakes_when_the_next_waiting_job_is_due() -> None:
    session = opened(
        waiting("a", HOUR, 3 * HOUR),
        waiting("b", HOUR, 2 * HOUR),
        waiting("due", HOUR, HOUR),
        waiting("unbounded", HOUR),
    )
    assert wake(session) == NOW_NS + HOUR


def test_jobs_that_wait_for_nothing_wake_nobody() -> None:
    running = waiting("a", HOUR, 2 * HOUR, phase=PodGroupPhase.RUNNING)
    session = Opened(node("n1"), queue(), running, pod("p", "a", on="n1"), plugins=["sla"])
    assert wake(session) is None


def test_a_gang_that_is_let_in_and_waits_for_room_does() -> None:
    let_in = waiting("a", HOUR, 2 * HOUR, phase=PodGroupPhase.INQUEUE)
    session = Opened(node("n1"), queue(), let_in, pod("p", "a"), plugins=["sla"])
    assert wake(session) == NOW_NS + HOUR


def test_the_engine_says_when_to_look_again() -> None:
    session = opened(waiting("a", HOUR, 3 * HOUR), pod("p", "a"))
    session.engine.schedule(NOW_NS)
    assert session.engine.next_wake(NOW_NS) == NOW_NS + 2 * HOUR
