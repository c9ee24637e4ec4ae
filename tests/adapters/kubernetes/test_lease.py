"""Leadership: one at a time, with epochs that only grow."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from aiohttp import web

from pumice.adapters.kubernetes.lease import EPOCH, LeaseEpochs, _Record
from pumice.adapters.kubernetes.options import LeaseOptions
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from tests.adapters.fake_clock import FakeClock, settle, until
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble

LEASES = "leases.coordination.k8s.io"


class Calls:
    """A session that counts the calls without an answer."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session
        self.in_flight = 0

    async def call(self, *given: Any, **named: Any) -> bytes:
        self.in_flight += 1
        try:
            return await self._session.call(*given, **named)
        finally:
            self.in_flight -= 1


class Candidates:
    def __init__(self, session: ApiSession) -> None:
        self.calls = Calls(session)
        self._tasks: list[asyncio.Task[None]] = []
        self.lost: list[str] = []
        self.clock = FakeClock(1_800_000_000.0)

    def add(self, name: str, clock: FakeClock | None = None) -> LeaseEpochs:
        lease = LeaseEpochs(
            cast(ApiSession, self.calls),
            LeaseOptions(identity=name),
            clock or self.clock,
            Metrics(),
            on_lost=lambda: self.lost.append(name),
        )
        self._tasks.append(asyncio.create_task(lease.run()))
        return lease

    def stop(self, index: int) -> None:
        self._tasks[index].cancel()

    async def close(self) -> None:
        await end_tasks(*self._tasks)


@pytest.fixture
async def candidates(session: ApiSession) -> AsyncIterator[Candidates]:
    made = Candidates(session)
    yield made
    await made.close()


def held(api: FakeApi) -> dict[str, Any]:
    return api.get(LEASES, "volcano-system", "volcano")


async def tick(candidates: Candidates, api: FakeApi, seconds: float) -> None:
    """Moves the clock on in small steps, and lets every call end before the next step."""
    end = candidates.clock.now() + seconds
    while candidates.clock.now() < end:
        await candidates.clock.advance(0.5)
        while candidates.calls.in_flight:
            await until(lambda: not candidates.calls.in_flight)
            await settle()


async def test_the_first_one_leads_with_an_epoch_of_its_time(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    first = candidates.add("a")
    epoch = await first.current()
    assert epoch == 1_800_000_000_001
    assert held(fake_api)["metadata"]["annotations"][EPOCH] == str(epoch)
    assert held(fake_api)["spec"]["holderIdentity"] == "a"
    assert held(fake_api)["spec"]["leaseDurationSeconds"] == 15
    assert first.may_act()


async def test_a_second_one_waits_until_the_first_is_gone(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    first = candidates.add("a")
    epoch = await first.current()
    second = candidates.add("b")
    waiting = asyncio.create_task(second.current())
    await tick(candidates, fake_api, 30)
    assert not waiting.done()
    assert not second.may_act()
    candidates.stop(0)
    await tick(candidates, fake_api, 20)
    assert await waiting > epoch
    assert second.may_act()
    assert held(fake_api)["spec"]["leaseTransitions"] == 2
    # The first never renewed again; by its own clock it knows.
    assert not first.may_act()


async def test_a_stored_epoch_in_the_future_is_passed(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    fake_api.put(
        LEASES,
        {
            "metadata": {
                "namespace": "volcano-system",
                "name": "volcano",
                "annotations": {EPOCH: "9000000000000", "kept": "yes"},
            },
            "spec": {"holderIdentity": ""},
        },
    )
    assert await candidates.add("a").current() == 9_000_000_000_001
    assert held(fake_api)["metadata"]["annotations"]["kept"] == "yes"


async def test_the_lease_of_a_scheduler_without_epochs_is_respected(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    spec = {"holderIdentity": "volcano-pod", "leaseDurationSeconds": 15}
    lease = {"metadata": {"namespace": "volcano-system", "name": "volcano"}, "spec": spec}
    fake_api.put(LEASES, lease)
    waiting = asyncio.create_task(candidates.add("a").current())
    await tick(candidates, fake_api, 10)
    # It renews: another fifteen seconds.
    fake_api.put(LEASES, held(fake_api))
    await tick(candidates, fake_api, 10)
    assert not waiting.done()
    await tick(candidates, fake_api, 10)
    assert await waiting


async def test_a_paused_leader_may_not_act_when_it_wakes(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    paused = FakeClock(1_800_000_000.0)
    first = candidates.add("a", paused)
    await first.current()
    assert first.may_act()
    # It stands still while the second one waits and wins.
    second = candidates.add("b")
    waiting = asyncio.create_task(second.current())
    await tick(candidates, fake_api, 20)
    epoch = await waiting
    paused._now += 20
    assert not first.may_act()
    # Then it finds out, and is not elected again.
    await paused.advance(3)
    await until(lambda: candidates.lost == ["a"])
    assert not first.may_act()
    assert held(fake_api)["spec"]["holderIdentity"] == "b"
    assert held(fake_api)["metadata"]["annotations"][EPOCH] == str(epoch)


async def test_an_api_server_that_is_away_ends_leadership_in_time(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    first = candidates.add("a")
    epoch = await first.current()
    fake_api.trouble.append(Trouble("PUT", "/leases/", times=100))
    await tick(candidates, fake_api, 9)
    assert first.may_act()
    await tick(candidates, fake_api, 3)
    assert not first.may_act()
    await until(lambda: candidates.lost == ["a"])
    fake_api.trouble.clear()
    waiting = asyncio.create_task(first.current())
    await tick(candidates, fake_api, 5)
    # A new epoch, although nobody else led in between.
    assert await waiting > epoch


async def test_nobody_acts_with_an_epoch_that_nobody_speaks_with(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    lease = candidates.add("a")
    await until(lambda: (LEASES, "volcano-system", "volcano") in fake_api.objects)
    await tick(candidates, fake_api, 1)
    assert not lease.may_act()
    await lease.current()
    assert lease.may_act()


async def test_a_fenced_epoch_is_left_behind(fake_api: FakeApi, candidates: Candidates) -> None:
    lease = candidates.add("a")
    epoch = await lease.current()
    renewing = asyncio.create_task(lease.renew(epoch + 5))
    await tick(candidates, fake_api, 5)
    assert await renewing > epoch + 5


async def test_a_renewal_whose_answer_was_lost_is_no_loss(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    lease = candidates.add("a")
    epoch = await lease.current()
    fake_api.trouble.append(Trouble("PUT", "/leases/", loses_answer=True))
    await tick(candidates, fake_api, 8)
    assert lease.may_act()
    assert await lease.current() == epoch
    assert candidates.lost == []


async def test_a_lease_that_is_given_back_is_taken_at_once(
    fake_api: FakeApi, candidates: Candidates
) -> None:
    first = candidates.add("a")
    await first.current()
    candidates.stop(0)
    await first.release()
    assert not first.may_act()
    waiting = asyncio.create_task(candidates.add("b").current())
    await tick(candidates, fake_api, 1)
    assert waiting.done()


def test_a_call_ends_before_the_lease_can_be_taken() -> None:
    options = LeaseOptions(identity="a")
    assert options.renew_deadline_seconds + options.call_seconds < options.duration_seconds
    with pytest.raises(ValueError, match="longer"):
        LeaseOptions(identity="a", duration_seconds=5)


@pytest.mark.parametrize("text", ["²", "", "-1", "1.5", "many"])
def test_an_epoch_that_is_not_a_number_is_none(text: str) -> None:
    assert _Record({"metadata": {"annotations": {EPOCH: text}}}).epoch == 0


async def test_a_lease_that_cannot_be_had_for_its_duration_is_a_problem(
    fake_api: FakeApi, candidates: Candidates, caplog: pytest.LogCaptureFixture
) -> None:
    fake_api.trouble.append(Trouble("GET", "/leases/", times=10**6, status=403, message="no right"))
    lease = candidates.add("a")
    await tick(candidates, fake_api, 10)
    assert lease.why_failing() == ""
    await tick(candidates, fake_api, 10)
    assert "no right" in lease.why_failing()
    # Ten tries, and fewer and fewer lines.
    assert 3 <= caplog.text.count("no right") <= 5
    fake_api.trouble.clear()
    await tick(candidates, fake_api, 5)
    assert lease.why_failing() == ""
    assert lease.leads


@pytest.mark.parametrize("body", [b"[]", b"{}", b"<html>", b"\xff", b"null"])
async def test_an_answer_that_is_not_a_lease_does_not_end_the_election(
    fake_api: FakeApi, candidates: Candidates, body: bytes
) -> None:
    answer = fake_api._one

    async def wrong(*given: Any) -> web.StreamResponse:
        return web.Response(body=body)

    fake_api.put(LEASES, {"metadata": {"namespace": "volcano-system", "name": "volcano"}})
    fake_api._one = wrong  # type: ignore[assignment, method-assign]
    lease = candidates.add("a")
    await tick(candidates, fake_api, 5)
    assert not lease.leads
    fake_api._one = answer  # type: ignore[method-assign]
    await tick(candidates, fake_api, 5)
    assert lease.leads
