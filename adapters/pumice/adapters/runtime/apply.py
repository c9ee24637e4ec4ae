"""The apply pool: applies decisions, a limited number at a time, in the order of arrival.

It retries calls that may succeed later, a limited number of times, and reports one outcome for
every decision.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence

from pumice.adapters.runtime.clock import Clock, end_tasks, within
from pumice.adapters.runtime.executor import DecisionExecutor, GangState, Work
from pumice.adapters.runtime.ledger import Ledger, Order, Refusal
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.outcomes import Verdict, gave_up
from pumice.adapters.runtime.resync import ResyncQueue, pod_identity
from pumice.v1.decision_pb2 import (
    OUTCOME_CODE_APPLIED,
    OUTCOME_CODE_FAILED,
    OUTCOME_CODE_GONE,
    Bind,
    Evict,
    Outcome,
    OutcomeCode,
)
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.status_pb2 import Event

log = logging.getLogger(__name__)

_SHOWN_CODES = {
    code: name.removeprefix("OUTCOME_CODE_").lower() for name, code in OutcomeCode.items()
}


class ApplyPool:
    """Applies orders in the order of arrival, several at a time."""

    def __init__(
        self,
        executor: DecisionExecutor,
        ledger: Ledger,
        resync: ResyncQueue,
        report: Callable[[Outcome], None],
        options: RuntimeOptions,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
    ) -> None:
        self._apply_timeout_seconds = options.apply_timeout_seconds
        self._executor, self._ledger, self._resync = executor, ledger, resync
        self._report, self._options = report, options
        self._clock, self._rng, self._metrics = clock, rng, metrics
        self._queue: deque[Work] = deque()
        # Decisions to retry, which precede those that have not been tried.
        self._retry_queue: deque[Work] = deque()
        self._active: dict[asyncio.Task[None], Work] = {}
        self._waits: dict[asyncio.Task[None], Work] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_paused = False
        self._is_closed = False
        self._is_stopped = False
        # Whether the last decision was refused because this adapter is not the leader.
        self._is_deposed = False
        self._reports_dropped = False
        metrics.gauge_from(
            "apply_queue_length",
            lambda: len(self._queue) + len(self._retry_queue) + len(self._waits),
        )
        # Receives events about binds.
        self.announce: Callable[[Event], None] = lambda event: None
        # Called when a decision has its outcome, and with whether it was applied.
        self.on_end: Callable[[Bind | Evict, bool], None] = lambda order, is_applied: None

    def set_apply_timeout(self, seconds: float) -> None:
        """Sets the time for one decision with all retries."""
        self._apply_timeout_seconds = seconds

    @property
    def is_idle(self) -> bool:
        return not (self._queue or self._retry_queue or self._active or self._waits)

    def submit(self, order: Order) -> None:
        gang = None if order.gang is None else GangState(order.gang)
        works = [Work(decision, gang) for decision in order.decisions]
        if self._is_paused:
            self._drop(works)
            return
        self._queue.extend(works)
        self._idle.clear()
        self._start_calls()

    def refuse(self, refusal: Refusal) -> None:
        log.warning("%d decisions: %s", len(refusal.decisions), refusal.reason)
        for decision in refusal.decisions:
            self._report_outcome(Work(decision), Verdict(OUTCOME_CODE_FAILED, refusal.reason))

    def drop_queued(self, *, report: bool, complete_begun: bool = False) -> None:
        """Drops decisions without a call in flight, and reports this to the core if asked to.

        With complete_begun, decisions that have begun stay: no gang is bound in part, and the effect
        of every call becomes known.
        """
        self._reports_dropped = report

        def stays(work: Work) -> bool:
            return complete_begun and work.has_begun

        dropped: list[Work] = []
        for wait, work in list(self._waits.items()):
            if not stays(work):
                wait.cancel()
                dropped.append(self._waits.pop(wait))
        for queue in (self._retry_queue, self._queue):
            dropped += [work for work in queue if not stays(work)]
        self._retry_queue = deque(filter(stays, self._retry_queue))
        self._queue = deque(filter(stays, self._queue))
        for task, work in self._active.items():
            if stays(work):
                continue
            work.dropped = True
            if not work.is_calling:
                # The call has not begun.
                task.cancel()
                dropped.append(work)
        self._drop(dropped)
        self._check_idle()

    async def pause(self, *, report: bool, seconds: float | None = None) -> bool:
        """Accepts no decisions, drops those that have not begun, and waits for the others.

        Returns whether all ended in time. The others are dropped.
        """
        self._is_paused = True
        self.drop_queued(report=report, complete_begun=True)
        limit = self._options.drain_timeout_seconds if seconds is None else seconds
        try:
            await within(self._clock, limit, self._idle.wait())
        except TimeoutError:
            self._metrics.count("drain_timeouts")
            log.warning(
                "%d decisions are still being applied; the drain no longer waits for them",
                self._pending_count,
            )
            self.drop_queued(report=report)
            return False
        return True

    async def close(self, seconds: float) -> bool:
        """Pauses without a later resume."""
        self._is_closed = True
        return await self.pause(report=False, seconds=seconds)

    def resume(self) -> None:
        self._is_paused = self._is_closed

    async def stop(self) -> None:
        # A call that ends at this moment must not start another one.
        self._is_paused = self._is_stopped = True
        self._queue.clear()
        self._retry_queue.clear()
        await end_tasks(*self._active, *self._waits)

    @property
    def _pending_count(self) -> int:
        return len(self._queue) + len(self._retry_queue) + len(self._active) + len(self._waits)

    def _check_idle(self) -> None:
        if self.is_idle:
            self._idle.set()

    def has_queued(self) -> bool:
        """Whether a decision waits for its call to begin."""
        return bool(self._retry_queue or self._queue)

    def _start_calls(self) -> None:
        while self.has_queued() and len(self._active) < self._options.calls_in_flight:
            work = self._next()
            task = asyncio.get_running_loop().create_task(self._try_in_turn(work))
            self._active[task] = work
            task.add_done_callback(self._end_call)

    def _next(self) -> Work:
        return self._retry_queue.popleft() if self._retry_queue else self._queue.popleft()

    def _end_call(self, task: "asyncio.Task[None]") -> None:
        del self._active[task]
        if not self._is_stopped:
            self._start_calls()
        self._check_idle()

    async def _try_in_turn(self, work: Work) -> None:
        """Tries queued decisions one after the other, until none is left."""
        task = asyncio.current_task()
        assert task is not None
        await self._try_once(work)
        while self.has_queued():
            work = self._active[task] = self._next()
            await self._try_once(work)

    async def _try_once(self, work: Work) -> None:
        try:
            verdict = await self._executor.attempt(work)
        except Exception as error:
            log.exception("%s of %s", work.verb, work.name)
            verdict = Verdict(OUTCOME_CODE_FAILED, f"{type(error).__name__}: {error}")
        work.is_calling = False
        if verdict.is_final:
            self._finish(work, verdict)
        elif work.dropped:
            self._drop([work])
        else:
            self._try_again_later(work, verdict)

    def _try_again_later(self, work: Work, verdict: Verdict) -> None:
        delay = max(work.retry_after, self._options.apply_backoff.delay(work.tries, self._rng))
        ends = self._clock.now() + delay - work.started
        if work.tries >= self._options.apply_tries or ends > self._apply_timeout_seconds:
            self._finish(work, gave_up(verdict, work.tries))
            return
        if not work.is_retry_reported:
            work.is_retry_reported = True
            self._report_outcome(work, verdict)
        wait = asyncio.get_running_loop().create_task(self._wait(work, delay))
        self._waits[wait] = work

    async def _wait(self, work: Work, delay: float) -> None:
        await self._clock.sleep(delay)
        task = asyncio.current_task()
        assert task is not None
        del self._waits[task]
        self._retry_queue.append(work)
        self._start_calls()

    def _finish(self, work: Work, verdict: Verdict) -> None:
        self._report_outcome(work, verdict)
        order = work.order
        if order is not None:
            self.on_end(order, verdict.code == OUTCOME_CODE_APPLIED)
        if verdict.is_deposed:
            self._log_deposed()
            return
        if order is None or not work.started:
            return
        self._is_deposed = False
        event = event_of(order, verdict)
        if event is not None:
            self.announce(event)
        self._metrics.observe(
            "apply_duration_seconds",
            self._clock.now() - work.started,
            verb=work.verb,
            code=shown_code(verdict.code),
        )
        pod = pod_identity(order.uid, order.namespace, order.name)
        if verdict.code == OUTCOME_CODE_APPLIED:
            self._resync.forget(pod)
            return
        # Pods that are deleted during a bind are normal.
        level = logging.INFO if verdict.code == OUTCOME_CODE_GONE else logging.WARNING
        log.log(level, "%s of %s: %s", work.verb, work.name, verdict.reason)
        self._resync.add(pod, f"its {work.verb} ended with {shown_code(verdict.code)}")

    def _report_outcome(self, work: Work, verdict: Verdict) -> None:
        self._metrics.count("outcomes", verb=work.verb, code=shown_code(verdict.code))
        self._report(
            Outcome(
                decision_id=work.decision.id,
                code=verdict.code,
                reason=verdict.reason,
            )
        )

    def _log_deposed(self) -> None:
        """Logs once that decisions arrive too late."""
        if not self._is_deposed:
            log.info("decisions are dropped: this adapter is no longer the leader")
        self._is_deposed = True

    def _drop(self, dropped: Sequence[Work]) -> None:
        if dropped:
            log.info("%d decisions dropped before they were applied", len(dropped))
        for work in dropped:
            self._metrics.count("dropped_decisions", verb=work.verb)
            log.debug("%s of %s dropped before it was applied", work.verb, work.name)
            reason = "dropped before it was applied"
            if work.tries and work.order is not None:
                reason = "dropped before its effect was known"
                self._read_again(work.order, f"its {work.verb} was {reason}")
            if self._reports_dropped:
                self._report_outcome(work, Verdict(OUTCOME_CODE_FAILED, reason))
            else:
                self._ledger.close([work.decision.id])

    def _read_again(self, order: Bind | Evict, reason: str) -> None:
        """Reads the pod of a call that may have had an effect."""
        self.on_end(order, False)
        self._resync.add(pod_identity(order.uid, order.namespace, order.name), reason)


def shown_code(code: OutcomeCode.ValueType) -> str:
    return _SHOWN_CODES[code]


def event_of(order: Bind | Evict, verdict: Verdict) -> Event | None:
    """The event on the pod; None: the core reports it, or there is nothing to report."""
    if isinstance(order, Evict):
        return None
    event = Event(kind=KIND_POD, namespace=order.namespace, name=order.name, uid=order.uid)
    if verdict.code == OUTCOME_CODE_APPLIED:
        event.reason = "Scheduled"
        event.message = f"Successfully assigned {order.namespace}/{order.name} to {order.node}"
        return event
    if verdict.code == OUTCOME_CODE_FAILED:
        event.warning = True
        event.reason = "FailedScheduling"
        event.message = f"could not be bound to {order.node}: {verdict.reason}"
        return event
    return None
