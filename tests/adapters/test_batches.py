"""How long ops wait for others that share their batch."""

import asyncio
from typing import Any, cast

import grpc.aio
import pytest

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.inbox import Inbox
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.outbox import Outbox
from pumice.adapters.runtime.stream import CoreStream
from pumice.v1.cluster_service_pb2 import Hello
from pumice.v1.decision_pb2 import OUTCOME_CODE_APPLIED, OUTCOME_CODE_FAILED, Outcome, OutcomeCode
from tests.adapters.fake_clock import FakeClock, settle

FLUSH = RuntimeOptions("c", "a").flush_seconds


class Writer:
    """A stream that writes into a list."""

    def __init__(self) -> None:
        self.clock, self.outbox = FakeClock(), Outbox(ResumeBuffer())
        self.outbox.begin_snapshot()
        self.outbox.end_snapshot()
        self.written: list[bytes] = []
        options, metrics = RuntimeOptions("c", "a"), Metrics()
        inbox = cast(Inbox, None)
        channel = cast(grpc.aio.Channel, self)
        self.call_seconds = 0.0
        self.stream = CoreStream(
            channel,
            Hello(),
            self.outbox,
            inbox,
            options,
            self.clock,
            metrics,
            lambda: self.call_seconds,
        )
        self.stream._credit.start(0, 100)

    def stream_stream(self, *_: object, **__: object) -> Any:
        return lambda: self

    async def write(self, request: bytes) -> None:
        self.written.append(request)

    def report(self, code: OutcomeCode.ValueType) -> None:
        self.outbox.report(Outcome(decision_id="d", code=code))


@pytest.fixture
def writer() -> Writer:
    return Writer()


async def flushes(writer: Writer, task: "asyncio.Task[bool]") -> int:
    """Moves time until the batch is written; how many flushes that took."""
    for count in range(20):
        await settle()
        if writer.written:
            await task
            return count
        # A little more, because sums of floats are inexact.
        await writer.clock.advance(FLUSH + 1e-9)
    raise AssertionError("nothing was written")


async def test_an_outcome_that_is_expected_waits_for_more(writer: Writer) -> None:
    writer.report(OUTCOME_CODE_APPLIED)
    task = asyncio.create_task(writer.stream._put_batch())
    assert await flushes(writer, task) == 10


async def test_news_wait_for_one_flush(writer: Writer) -> None:
    writer.report(OUTCOME_CODE_FAILED)
    task = asyncio.create_task(writer.stream._put_batch())
    assert await flushes(writer, task) == 1


async def test_news_that_come_meanwhile_end_the_wait_of_all(writer: Writer) -> None:
    writer.report(OUTCOME_CODE_APPLIED)
    task = asyncio.create_task(writer.stream._put_batch())
    await settle()
    await writer.clock.advance(FLUSH)
    writer.report(OUTCOME_CODE_FAILED)
    assert await flushes(writer, task) == 1
    assert not writer.outbox.has_work


@pytest.mark.parametrize(("calls_take", "expected"), [(1.5, 1), (8, 4), (1000, 10)])
async def test_news_wait_for_half_a_call_while_calls_are_slow(
    writer: Writer, calls_take: float, expected: int
) -> None:
    writer.call_seconds = calls_take * FLUSH
    writer.report(OUTCOME_CODE_FAILED)
    task = asyncio.create_task(writer.stream._put_batch())
    assert await flushes(writer, task) == expected
