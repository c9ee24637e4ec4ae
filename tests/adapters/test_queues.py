"""Resync: per object, later each time, until it is done."""

import asyncio
import random

from pumice.adapters.runtime.clock import Backoff, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.resync import ResyncQueue, pod_identity
from pumice.adapters.runtime.work_queue import WorkQueue
from pumice.v1.object_pb2 import ClusterObject
from tests.adapters.fake_clock import FakeClock, settle
from tests.adapters.fake_world import FakeWorld, pod

A = pod_identity("uid-a", "ns", "a")


class Ear:
    """Hears what the resync queue tells."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.revisions: list[int] = []

    def revision_of(self, kind: KindNumber, uid: str) -> int:
        return self.revisions.pop(0) if self.revisions else 1

    def update(self, cluster_object: ClusterObject) -> None:
        self.heard.append(f"seen {cluster_object.pod.uid}")

    def delete(self, kind: KindNumber, uid: str) -> None:
        self.heard.append(f"gone {uid}")


class Bench:
    def __init__(self) -> None:
        self.world, self.clock, self.ear = FakeWorld(), FakeClock(), Ear()
        self.metrics = Metrics()
        self.queue = ResyncQueue(
            self.world, self.ear, Backoff(1.0, 60.0), self.clock, random.Random(1), self.metrics
        )
        self.task = asyncio.create_task(self.queue.run())


def test_delays_grow_with_jitter_up_to_a_ceiling() -> None:
    backoff, rng = Backoff(1.0, 20.0), random.Random(3)
    delays = [backoff.delay(failures, rng) for failures in range(12)]
    assert delays[0] == 0
    for failures, delay in enumerate(delays[1:5], 1):
        whole = 2.0 ** (failures - 1)
        assert whole / 2 <= delay <= whole
    assert all(10 <= delay <= 20 for delay in delays[6:])
    assert len(set(delays)) == 12
    assert backoff.delay(10**6, rng) <= 20


async def test_a_key_waits_longer_each_time_until_it_is_forgotten() -> None:
    clock = FakeClock()
    keys: WorkQueue[str] = WorkQueue(Backoff(1.0, 60.0), clock, random.Random(1))
    delays = []
    for _ in range(5):
        delays.append(keys.retry("k"))
        assert keys.retry("k") == 0.0
        assert len(keys) == 1
        task = asyncio.create_task(take(keys))
        await clock.advance(60)
        assert await task == "k"
    assert delays[0] == 0.0
    assert delays == sorted(delays)
    keys.forget("k")
    assert keys.retry("k") == 0.0


async def take(keys: WorkQueue[str]) -> str:
    key = await keys.get()
    keys.done(key)
    return key


async def test_a_key_that_is_processed_comes_again_only_after_that() -> None:
    keys: WorkQueue[str] = WorkQueue(Backoff(1.0, 60.0), FakeClock(), random.Random(1))
    keys.add("a")
    keys.add("b")
    keys.add("a")
    assert await keys.get() == "a"
    keys.add("a")
    assert await keys.get() == "b"
    # Another worker waits, because the only key is being processed.
    waiting = asyncio.create_task(keys.get())
    await settle()
    assert not waiting.done()
    keys.done("a")
    assert await waiting == "a"
    assert len(keys) == 0


async def test_a_key_becomes_due_while_others_are_processed() -> None:
    clock = FakeClock()
    keys: WorkQueue[str] = WorkQueue(Backoff(10.0, 60.0), clock, random.Random(1))
    keys.retry("later")
    await take(keys)
    keys.add("busy")
    assert await keys.get() == "busy"
    keys.add("busy")
    keys.retry("later")
    waiting = asyncio.create_task(keys.get())
    await clock.advance(10)
    assert await waiting == "later"


async def test_an_addition_ends_the_wait_for_a_retry() -> None:
    clock = FakeClock()
    keys: WorkQueue[str] = WorkQueue(Backoff(10.0, 60.0), clock, random.Random(1))
    keys.retry("k")
    await take(keys)
    assert keys.retry("k") > 0
    keys.add("k")
    assert await take(keys) == "k"
    # The entry of the retry is out of date.
    waiting = asyncio.create_task(keys.get())
    await clock.advance(100)
    assert not waiting.done()
    await end_tasks(waiting)


async def test_keys_come_when_they_are_due_whatever_the_order_of_their_arrival() -> None:
    clock = FakeClock()
    keys: WorkQueue[str] = WorkQueue(Backoff(8.0, 60.0), clock, random.Random(1))
    keys.retry("slow")
    assert await take(keys) == "slow"
    keys.retry("slow")
    task = asyncio.create_task(take(keys))
    await settle()
    keys.retry("quick")
    assert await task == "quick"


async def test_a_key_that_is_often_added_before_its_time_takes_no_more_memory() -> None:
    keys: WorkQueue[str] = WorkQueue(Backoff(1.0, 60.0), FakeClock(), random.Random(1))
    keys.add_after("other", 10.0)
    for _ in range(10_000):
        keys.add_after("a", 86_400.0)
        keys.add("a")
        assert await take(keys) == "a"
        keys.done("a")
    assert len(keys._heap) < 3000
    assert len(keys) == 1


async def test_an_object_is_read_afresh_and_told() -> None:
    bench = Bench()
    bench.world.store.put(pod("a"))
    bench.queue.add(A, "test")
    await settle()
    assert bench.ear.heard == ["seen uid-a"]
    assert bench.metrics.counted("resyncs", kind="pod") == 1
    await end_tasks(bench.task)


async def test_an_object_that_is_not_there_is_told_as_gone() -> None:
    bench = Bench()
    bench.queue.add(A, "test")
    await settle()
    assert bench.ear.heard == ["gone uid-a"]
    await end_tasks(bench.task)


async def test_a_name_that_has_another_uid_by_now_is_told_as_both() -> None:
    bench = Bench()
    bench.world.store.put(pod("a", uid="new"))
    bench.queue.add(A, "test")
    await settle()
    assert bench.ear.heard == ["gone uid-a", "seen new"]
    await end_tasks(bench.task)


async def test_a_world_that_does_not_answer_is_asked_later_and_later() -> None:
    bench = Bench()
    bench.world.store.put(pod("a"))
    bench.world.unreadable = 4
    bench.queue.add(A, "test")
    await bench.clock.advance(100)
    assert bench.ear.heard == ["seen uid-a"]
    waits = [sleep for sleep in bench.clock.sleeps if sleep > 0]
    assert len(waits) == 4
    assert waits == sorted(waits)
    assert bench.metrics.counted("resync_failures") == 4
    await end_tasks(bench.task)


async def test_successful_readings_of_one_object_never_wait_longer() -> None:
    bench = Bench()
    bench.world.store.put(pod("a"))
    for _ in range(6):
        bench.queue.add(A, "test")
        await settle()
    assert bench.ear.heard == ["seen uid-a"] * 6
    assert [sleep for sleep in bench.clock.sleeps if sleep > 0] == []
    await end_tasks(bench.task)


async def test_a_success_resets_the_delay_of_a_key_that_waits_again() -> None:
    keys: WorkQueue[str] = WorkQueue(Backoff(1.0, 60.0), FakeClock(), random.Random(1))
    keys.retry("k")
    await take(keys)
    keys.retry("k")
    keys.forget("k")
    assert len(keys) == 1
    assert keys._retries == {}


async def test_a_reading_that_the_watch_overtook_is_not_told() -> None:
    bench = Bench()
    bench.world.store.put(pod("a"))
    bench.ear.revisions = [1, 2, 2, 2]
    bench.queue.add(A, "test")
    await settle()
    assert bench.ear.heard == []
    await bench.clock.advance(5)
    assert bench.ear.heard == ["seen uid-a"]
    await end_tasks(bench.task)
