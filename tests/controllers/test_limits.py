"""The limits of the loop."""

import random
from typing import Any

from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.resources import CONFIG_MAPS, PODS
from pumice.controllers.runtime import event_queue, performing
from pumice.controllers.runtime.acts import Create, Emit, Reference
from pumice.controllers.runtime.event_queue import EventQueue
from pumice.controllers.runtime.loop import LONGEST_RETRY
from pumice.controllers.runtime.performing import Performer


class _Recorder:
    def __init__(self) -> None:
        self.written: list[str] = []

    async def write(self, event: Any, resource: Any) -> None:
        self.written.append(event.message)

    async def stop(self) -> None: ...


async def test_the_oldest_event_is_dropped(monkeypatch: Any) -> None:
    monkeypatch.setattr(event_queue, "MOST_EVENTS", 2)
    metrics, recorder = Metrics(CONTROLLER_SERIES), _Recorder()
    stand_in: Any = recorder
    queue = EventQueue(stand_in, metrics, lambda: True)
    for number in range(3):
        queue.put(Emit(Reference(CONFIG_MAPS, "ns", "a", "u"), "Reason", str(number)))
    await queue.drain()
    assert recorder.written == ["1", "2"]
    assert metrics.counted("dropped_events", cause="queue full") == 1


def test_delays_of_retries_are_bounded() -> None:
    delays = [LONGEST_RETRY.delay(failures, random.Random(1)) for failures in range(60)]
    assert max(delays) <= LONGEST_RETRY.ceiling_seconds
    assert delays[0] == 0.0


async def test_calls_of_a_plan_in_flight_are_bounded(monkeypatch: Any) -> None:
    import asyncio

    monkeypatch.setattr(performing, "MOST_CALLS", 3)
    running, most = 0, 0

    class Api:
        async def call(self, *_: Any, **__: Any) -> bytes:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return b"{}"

    api: Any = Api()
    queue: Any = None
    performer = Performer(api, {}, queue, Metrics(CONTROLLER_SERIES), lambda: True, 1.0)
    creates = [Create(PODS, {"metadata": {"namespace": "ns", "name": str(n)}}) for n in range(20)]
    assert await performer.perform([creates]) == ""
    assert most == 3
