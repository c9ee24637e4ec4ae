"""The limits of the loop."""

import asyncio
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pumice.adapters.kubernetes.errors import ApiError
from pumice.adapters.runtime.clock import SystemClock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.work_queue import WorkQueue
from pumice.controllers.job import syncing
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.resources import CONFIG_MAPS, PODS
from pumice.controllers.runtime import event_queue, failures, performing
from pumice.controllers.runtime.acts import Create, Emit, Patch, Reference
from pumice.controllers.runtime.event_queue import EventQueue
from pumice.controllers.runtime.loop import RETRY_BACKOFF
from pumice.controllers.runtime.performing import Performer
from tests.adapters.fake_clock import until
from tests.controllers.jobs import job, task
from tests.controllers.model import KEY, Model


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
    delays = [RETRY_BACKOFF.delay(failures, random.Random(1)) for failures in range(60)]
    assert max(delays) <= RETRY_BACKOFF.ceiling_seconds
    assert delays[0] == 0.0


async def test_calls_of_a_plan_in_flight_are_bounded(monkeypatch: Any) -> None:
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
    assert await performer.perform([creates]) is None
    assert most == 3


async def test_a_creation_waits_for_slow_webhooks_and_other_writes_do_not() -> None:
    limits: dict[str, float] = {}

    class Api:
        async def call(self, method: str, *_: Any, seconds: float, **__: Any) -> bytes:
            limits[method] = seconds
            return b"{}"

    api: Any = Api()
    queue: Any = None
    performer = Performer(api, {}, queue, Metrics(CONTROLLER_SERIES), lambda: True, 4.0)
    body = {"metadata": {"namespace": "ns", "name": "a"}}
    await performer.perform([[Create(PODS, body), Patch(PODS, "ns", "a", "u", {})]])
    assert limits == {"POST": performing.CREATE_SECONDS, "PATCH": 4.0}


async def test_a_server_that_asks_for_time_gets_it() -> None:
    class Api:
        async def call(self, method: str, *_: Any, **__: Any) -> bytes:
            if method == "POST":
                raise ApiError(429, "TooManyRequests", "later", 7.0)
            raise ApiError(500, "", "broken")

    api: Any = Api()
    queue: Any = None
    performer = Performer(api, {}, queue, Metrics(CONTROLLER_SERIES), lambda: True, 4.0)
    body = {"metadata": {"namespace": "ns", "name": "a"}}
    failure = await performer.perform([[Patch(PODS, "ns", "a", "u", {}), Create(PODS, body)]])
    assert failure is not None
    assert (failure.retry_after, failure.is_conflict) == (7.0, False)
    keys: WorkQueue[str] = WorkQueue(RETRY_BACKOFF, SystemClock(), random.Random(1))
    assert keys.retry("a", failure.retry_after) == 7.0


async def test_warnings_of_the_api_server_are_events_once_per_owner(monkeypatch: Any) -> None:
    monkeypatch.setattr(performing, "MOST_WARNINGS", 2)

    class Api:
        text = ""

        async def call(self, *_: Any, on_warning: Any = None, **__: Any) -> bytes:
            on_warning(self.text)
            return b"{}"

    events: list[Emit] = []
    api: Any = Api()
    queue: Any = SimpleNamespace(put=events.append)
    performer = Performer(api, {}, queue, Metrics(CONTROLLER_SERIES), lambda: True, 1.0)

    async def create(owner: str, text: str) -> None:
        api.text = text
        about = Reference(CONFIG_MAPS, "ns", owner, owner)
        refused = Emit(about, "FailedCreate", "no pod")
        bodies = [{"metadata": {"namespace": "ns", "name": str(n)}} for n in range(3)]
        assert await performer.perform([[Create(PODS, body, refused) for body in bodies]]) is None

    for owner, text in (("a", "odd"), ("a", "odd"), ("b", "odd"), ("a", "other"), ("a", "odd")):
        await create(owner, text)
    said = [(one.about.name, one.reason, one.message) for one in events]
    # The first was forgotten when the third came.
    assert said == [
        (owner, "APIWarning", f"Pod: {text}")
        for owner, text in (("a", "odd"), ("b", "odd"), ("a", "other"), ("a", "odd"))
    ]
    assert all(one.warning for one in events)


class _Refusing:
    """An API server that fails for some names."""

    def __init__(self, status: int, *failing: str) -> None:
        self.calls: list[str] = []
        self._status, self._failing = status, failing

    async def call(self, _: str, path: str, body: bytes = b"", **__: Any) -> bytes:
        await asyncio.sleep(0)
        name = msgspec.json.decode(body)["metadata"]["name"]
        self.calls.append(name)
        if name.startswith(self._failing) or name.endswith(self._failing):
            raise ApiError(self._status, "Forbidden", "exceeded quota")
        return b"{}"

    def made(self, prefix: str) -> int:
        return sum(name.startswith(prefix) for name in self.calls)


def _creates(*tasks: str) -> list[Create]:
    return [
        Create(PODS, {"metadata": {"namespace": "ns", "name": f"{name}-{n}"}}, like=name)
        for name in tasks
        for n in range(1000)
    ]


async def _failure(api: Any, stage: Sequence[Any]) -> Any:
    queue: Any = None
    performer = Performer(api, {}, queue, Metrics(CONTROLLER_SERIES), lambda: True, 1.0)
    return await performer.perform([stage])


async def test_refused_creations_of_one_task_end_early_and_other_tasks_do_not() -> None:
    api = _Refusing(403, "large")
    assert await _failure(api, _creates("small", "large", "other")) is not None
    in_flight = performing.MOST_CALLS + failures.MOST_FAILURES_IN_A_ROW
    assert api.made("large") <= in_flight
    assert (api.made("small"), api.made("other")) == (1000, 1000)


async def test_creations_that_are_refused_now_and_then_are_all_tried() -> None:
    api = _Refusing(422, "0", "1", "2", "3", "4")
    assert await _failure(api, _creates("task")) is not None
    assert len(api.calls) == 1000


async def test_an_outage_ends_a_stage_early() -> None:
    api = _Refusing(429, "a", "b")
    failure = await _failure(api, _creates("a", "b"))
    assert failure is not None
    assert failure.is_outage
    assert len(api.calls) <= performing.MOST_CALLS + failures.MOST_FAILURES_IN_A_ROW


def test_a_plan_creates_a_bounded_number_of_pods_and_the_next_one_follows_at_once() -> None:
    model = Model(job("job", task("one", replicas=2500), task("two", replicas=3)))
    model.settle()
    model.admit()
    counts = []
    while len(model.pods()) < 2503:
        observed = model.controller.observe(KEY, model.caches, model.now_ms)
        assert observed is not None
        plan = model.controller.reconcile(observed)
        names = [act.body["metadata"]["name"] for act in plan.stages[0] if isinstance(act, Create)]
        counts.append((len(names), sum("-two-" in name for name in names)))
        assert plan.again_seconds == 0.0 or len(model.pods()) + len(names) == 2503
        model._perform(plan, None)
    most = syncing.MOST_CREATED
    # Each task has its share.
    assert counts == [(most // 2 + 3, 3), (most, 0), (2503 - most - most // 2 - 3, 0)]
    model.settle()
    assert len(model.pods()) == 2503


async def test_an_error_in_one_act_is_raised_after_the_others_have_ended() -> None:
    ended = []

    class Api:
        async def call(self, *_: Any, **__: Any) -> bytes:
            await asyncio.sleep(0.01)
            ended.append(1)
            return b"{}"

    def broken() -> Any:
        raise ZeroDivisionError

    body = {"metadata": {"namespace": "ns", "name": "a"}}
    with pytest.raises(ZeroDivisionError):
        await _failure(Api(), [Create(PODS, body, complete=broken), Create(PODS, body)])
    assert ended == [1]


async def test_an_error_in_one_event_does_not_stop_the_others() -> None:
    class Broken(_Recorder):
        async def write(self, event: Any, resource: Any) -> None:
            if event.message == "bad":
                raise ZeroDivisionError
            await super().write(event, resource)

    recorder: Any = Broken()
    queue = EventQueue(recorder, Metrics(CONTROLLER_SERIES), lambda: True)
    work = asyncio.create_task(queue.run())
    for text in ("bad", "good"):
        queue.put(Emit(Reference(CONFIG_MAPS, "ns", "a", "u"), "Reason", text))
    await until(lambda: recorder.written == ["good"])
    await end_tasks(work)
