"""enqueue: pending jobs are let in, queue by queue, and a refused one blocks nobody."""

from __future__ import annotations

from typing import Any

from pumice.core.cache.jobs import Job
from pumice.core.model.group import PodGroup, PodGroupPhase
from pumice.core.session.hooks import ABSTAIN, PERMIT, REJECT
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS, node, pod_group, priority_class, queue
from tests.core.evicting import engine
from tests.core.plugins.opened import minimum
from tests.core.strangers import StrangerPlugin, stranger

P = PodGroupPhase


class Door:
    """Plugin classes that answer as told, and what they were asked and told."""

    def __init__(self, **votes: int) -> None:
        self.votes = votes
        self.asked: list[str] = []
        self.let_in: list[str] = []

    def plugin(self) -> type[StrangerPlugin]:
        def ask(job: Job) -> int:
            self.asked.append(job.name)
            return self.votes.get(job.name, ABSTAIN)

        def open_(_: StrangerPlugin, session: Session) -> None:
            session.hooks.job_enqueueable["stranger"] = ask
            session.hooks.job_enqueued["stranger"] = lambda job: self.let_in.append(job.name)

        return stranger(open=open_)


def pending(
    name: str, cpu: float | None = 1, phase: PodGroupPhase = P.NONE, **fields: Any
) -> PodGroup:
    asked = None if cpu is None else minimum(cpu)
    return pod_group(name, phase=phase, min_resources=asked, **fields)


def phases(door: Door, *objects: Any) -> dict[str, PodGroupPhase]:
    made = engine(
        "enqueue", (("priority", "stranger"),), node("n1"), *objects, plugins=[door.plugin()]
    )
    assert not made.schedule(NOW_NS).faults
    return {job.name: job.phase for job in made.cache.jobs.values()}


def test_a_job_is_let_in_when_nobody_objects_and_plugins_hear_of_it() -> None:
    door = Door(b=PERMIT, c=REJECT)
    found = phases(door, queue(), pending("a"), pending("b"), pending("c"))
    assert found == {"a": P.INQUEUE, "b": P.INQUEUE, "c": P.PENDING}
    assert door.let_in == ["a", "b"]


def test_a_job_without_a_minimum_is_let_in_unasked_and_plugins_hear_of_it() -> None:
    door = Door(a=REJECT)
    assert phases(door, queue(), pending("a", None)) == {"a": P.INQUEUE}
    assert (door.asked, door.let_in) == ([], ["a"])


def test_jobs_without_pods_and_without_a_valid_gang_are_let_in() -> None:
    assert phases(Door(), queue(), pending("a"))["a"] is P.INQUEUE


def test_only_pending_jobs_are_looked_at() -> None:
    door = Door()
    some = [pending(p.value.lower() or "none", phase=p) for p in P]
    phases(door, queue(), *some)
    assert sorted(door.asked) == ["none", "pending"]


def test_a_job_of_a_missing_queue_is_not_looked_at() -> None:
    door = Door()
    assert phases(door, queue(), pending("a", queue_name="gone")) == {"a": P.NONE}
    assert door.asked == []


def test_a_refused_job_does_not_hold_the_next_one_up() -> None:
    door = Door(a=REJECT)
    assert phases(door, queue(), pending("a"), pending("b"))["b"] is P.INQUEUE
    assert door.asked == ["a", "b"]


def test_jobs_go_in_job_order_and_queues_take_turns_as_their_order_says() -> None:
    door = Door()
    phases(
        door,
        queue("late", creation_time_ns=2),
        queue("early", creation_time_ns=1),
        priority_class("high", 9),
        pending("a", queue_name="late"),
        pending("b", queue_name="early"),
        pending("c", queue_name="early", priority_class_name="high"),
    )
    # The order of queues does not change while jobs are let in, so one is drained first.
    assert door.asked == ["c", "b", "a"]
