"""The limit on calls in flight: statuses and events wait for binds, for a bounded time."""

import asyncio

from pumice.adapters.runtime.call_limiter import EVENT_GAP_SECONDS, CallLimiter, CallPriority
from pumice.adapters.runtime.durations import RECENT_SECONDS, RecentDurations
from tests.adapters.fake_clock import FakeClock, settle


class Holders:
    """Calls of a limiter that go on until they are told to end."""

    def __init__(self, limiter: CallLimiter) -> None:
        self.limiter = limiter
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    def begin(self, name: str, priority: CallPriority) -> None:
        self._ends[name] = asyncio.Event()
        asyncio.get_running_loop().create_task(self._hold(name, priority))

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await settle()

    async def _hold(self, name: str, priority: CallPriority) -> None:
        async with self.limiter.hold(priority):
            self.begun.append(name)
            await self._ends[name].wait()


async def test_statuses_and_events_wait_while_a_bind_is_in_flight() -> None:
    clock = FakeClock()
    calls = Holders(CallLimiter(16, clock))
    calls.begin("bind", CallPriority.APPLY)
    await settle()
    for number in range(10):
        calls.begin(f"event {number}", CallPriority.EVENT)
        calls.begin(f"status {number}", CallPriority.STATUS)
    await settle()
    assert calls.begun == ["bind"]
    await calls.end("bind")
    # Half of the places stay free, so that the next bind begins at once.
    assert calls.begun[1:] == [f"status {number}" for number in range(8)]
    calls.begin("next bind", CallPriority.APPLY)
    await settle()
    assert calls.begun[-1] == "next bind"
    await calls.end(*(f"status {number}" for number in range(8)))
    assert calls.begun[-1] == "next bind"
    await calls.end("next bind")
    # Events wait until the statuses have ended, and only one place in sixteen is for them.
    assert calls.begun[10:] == ["status 8", "status 9"]
    await calls.end("status 8", "status 9")
    # They also wait for a gap between binds.
    assert calls.begun[12:] == []
    await clock.advance(EVENT_GAP_SECONDS + 1.0)
    assert calls.begun[12:] == ["event 0"]
    await calls.end("event 0")
    assert calls.begun[13:] == ["event 1"]


async def test_binds_without_a_gap_do_not_stop_statuses_for_ever() -> None:
    clock = FakeClock()
    calls = Holders(CallLimiter(16, clock))
    calls.begin("bind", CallPriority.APPLY)
    await settle()
    for number in range(4):
        calls.begin(f"status {number}", CallPriority.STATUS)
    await clock.advance(2.5)
    assert calls.begun == ["bind"]
    await clock.advance(1.5)
    assert calls.begun == ["bind", "status 0", "status 1"]
    await calls.end("status 0")
    assert calls.begun[3:] == ["status 2"]


async def test_events_wait_longer_for_binds_than_statuses_do() -> None:
    clock = FakeClock()
    calls = Holders(CallLimiter(32, clock))
    calls.begin("bind", CallPriority.APPLY)
    await settle()
    for number in range(3):
        calls.begin(f"event {number}", CallPriority.EVENT)
    await clock.advance(29.5)
    assert calls.begun == ["bind"]
    await clock.advance(1.5)
    assert calls.begun == ["bind", "event 0"]


async def test_statuses_without_end_do_not_stop_events_beside_binds() -> None:
    clock = FakeClock()
    calls = Holders(CallLimiter(32, clock))
    calls.begin("bind", CallPriority.APPLY)
    await settle()
    calls.begin("event", CallPriority.EVENT)
    for number in range(40):
        calls.begin(f"status {number}", CallPriority.STATUS)
        await clock.advance(1.0)
        if number > 10:
            await calls.end(f"status {number - 5}")
    assert "event" in calls.begun


async def test_admissions_have_a_part_of_the_places_beside_binds() -> None:
    limiter = CallLimiter(8, FakeClock())
    calls = Holders(limiter)
    for number in range(8):
        calls.begin(f"bind {number}", CallPriority.APPLY)
    await settle()
    for number in range(4):
        calls.begin(f"admission {number}", CallPriority.ADMISSION)
    calls.begin("next bind", CallPriority.APPLY)
    await settle()
    assert len(calls.begun) == 8
    # A quarter of the places goes to admissions, though a bind waits too.
    await calls.end("bind 0", "bind 1", "bind 2")
    assert calls.begun[8:] == ["admission 0", "admission 1", "next bind"]
    # Admissions that have used their part do not hold up a bind.
    await calls.end("bind 3")
    assert len(calls.begun) == 11
    assert limiter.acquire_at_once(CallPriority.APPLY)
    limiter.release(CallPriority.APPLY)
    await calls.end("admission 0")
    assert calls.begun[11:] == ["admission 2"]


async def test_without_binds_admissions_leave_places_free_for_binds() -> None:
    calls = Holders(CallLimiter(8, FakeClock()))
    for number in range(6):
        calls.begin(f"admission {number}", CallPriority.ADMISSION)
    await settle()
    assert len(calls.begun) == 4
    calls.begin("bind", CallPriority.APPLY)
    await settle()
    assert calls.begun[4:] == ["bind"]


async def test_no_status_goes_before_a_decision_that_is_queued() -> None:
    limiter = CallLimiter(4)
    limiter.expects_apply = lambda: True
    assert not limiter.acquire_at_once(CallPriority.STATUS)
    assert limiter.acquire_at_once(CallPriority.APPLY)


async def test_a_slot_given_to_one_who_left_goes_to_the_next() -> None:
    slots = CallLimiter(1)
    reached: list[str] = []

    async def hold(name: str) -> None:
        async with slots.hold(CallPriority.STATUS):
            reached.append(name)

    async with slots.hold(CallPriority.APPLY):
        leaver, stayer = (asyncio.create_task(hold(name)) for name in ("leaver", "stayer"))
        await settle()
        leaver.cancel()
    await stayer
    assert reached == ["stayer"]
    async with slots.hold(CallPriority.EVENT):
        pass


async def test_the_duration_of_apply_calls_is_known_for_a_moment() -> None:
    clock = FakeClock()
    limiter = CallLimiter(4, clock)
    calls = Holders(limiter)
    assert limiter.apply_durations.mean == 0.0
    for number in range(100):
        calls.begin(f"bind {number}", CallPriority.APPLY)
        calls.begin(f"admission {number}", CallPriority.ADMISSION)
        await settle()
        await calls.end(f"admission {number}")
        await clock.advance(0.2)
        await calls.end(f"bind {number}")
    assert 0.19 < limiter.apply_durations.mean < 0.21
    await clock.advance(RECENT_SECONDS)
    assert limiter.apply_durations.mean == 0.0


async def test_short_gaps_between_binds_are_not_for_events() -> None:
    clock = FakeClock()
    calls = Holders(CallLimiter(32, clock))
    for number in range(40):
        calls.begin(f"bind {number}", CallPriority.APPLY)
        await settle()
        if not number:
            calls.begin("event", CallPriority.EVENT)
        await clock.advance(0.3)
        await calls.end(f"bind {number}")
        await clock.advance(EVENT_GAP_SECONDS / 2)
    assert "event" not in calls.begun
    await clock.advance(EVENT_GAP_SECONDS + 1.0)
    assert calls.begun[-1] == "event"


async def test_durations_of_an_earlier_time_do_not_count() -> None:
    clock = FakeClock()
    durations = RecentDurations(clock)
    for _ in range(100):
        durations.add_since(clock.now() - 10.0)
    await clock.advance(RECENT_SECONDS)
    durations.add_since(clock.now() - 0.001)
    assert durations.mean < 0.001
