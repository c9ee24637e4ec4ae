"""Attempts to apply decisions: check, read back after a failure, call, judge the result."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pumice.adapters.runtime.call_limiter import CallLimiter, CallPriority
from pumice.adapters.runtime.clock import Clock, within
from pumice.adapters.runtime.ledger import Ledger
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.outcomes import Verdict, judge, judge_reading, target
from pumice.adapters.runtime.world import ApplyCode, ApplyResult, ReadError, World
from pumice.adapters.runtime.world_calls import call_result
from pumice.v1.decision_pb2 import (
    OUTCOME_CODE_FAILED,
    OUTCOME_CODE_RETRYING,
    Bind,
    Decision,
    Evict,
    Gang,
)


@dataclass(slots=True)
class GangState:
    """State that the members of a gang share."""

    gang: Gang
    checked: bool = False
    refusal: str | None = None
    # Whether a call for a member was made, so that the others must follow.
    begun: bool = False


@dataclass(slots=True)
class Work:
    """One decision that is being applied."""

    decision: Decision
    gang: GangState | None = None
    # Number of calls, and the time of the first one.
    tries: int = 0
    started: float = 0.0
    # Minimum time before the next call, set by the world.
    retry_after: float = 0.0
    # Whether the retry was reported to the core.
    is_retry_reported: bool = False
    # Whether the call has begun.
    is_calling: bool = False
    # Whether it was dropped during a call, so that no attempt follows.
    dropped: bool = False
    # The order of the decision; None: an unknown type.
    order: Bind | Evict | None = field(init=False)
    verb: str = field(init=False)

    def __post_init__(self) -> None:
        self.order = target(self.decision)
        self.verb = self.decision.WhichOneof("order") or "unknown"

    @property
    def has_begun(self) -> bool:
        """Whether a call was made for it, or for another member of its gang."""
        return self.tries > 0 or (self.gang is not None and self.gang.begun)

    @property
    def name(self) -> str:
        order = self.order
        return self.decision.id if order is None else f"{order.namespace}/{order.name}"


class DecisionExecutor:
    """Makes the calls for decisions, each with a timeout."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        limiter: CallLimiter,
        call_timeout_seconds: float,
        clock: Clock,
        metrics: Metrics,
        may_act: Callable[[], bool],
        on_call: Callable[[Bind | Evict], None] = lambda _: None,
    ) -> None:
        self._world, self._ledger, self._limiter = world, ledger, limiter
        self._call_timeout_seconds = call_timeout_seconds
        self._clock, self._metrics, self._may_act = clock, metrics, may_act
        # Called before each bind or eviction.
        self._on_call = on_call

    async def attempt(self, work: Work) -> Verdict:
        """The verdict of one attempt."""
        order = work.order
        if order is None:
            return Verdict(OUTCOME_CODE_FAILED, "the type of the order is unknown to this adapter")
        async with self._limiter.hold(CallPriority.APPLY):
            work.is_calling = True
            if not self._may_act():
                reason = "this adapter is no longer the leader"
                return Verdict(OUTCOME_CODE_FAILED, reason, is_deposed=True)
            refusal = self._why_not_gang(work.gang)
            if refusal is not None:
                return Verdict(OUTCOME_CODE_FAILED, f"gang refused: {refusal}")
            if not work.started:
                work.started = self._clock.now()
            if work.gang is not None:
                work.gang.begun = True
            work.tries += 1
            if work.tries > 1:
                verdict = await self._read_back(work, order)
                if verdict is not None:
                    return verdict
            result = await self._call(work, order)
        self._metrics.count("apply_calls", verb=work.verb, result=result.code.value)
        work.retry_after = result.retry_after_seconds
        if result.code is ApplyCode.WAITING:
            # The pod was not changed, so this does not count as an attempt.
            work.tries -= 1
        return judge(work.decision, result)

    def _why_not_gang(self, state: GangState | None) -> str | None:
        """Why the gang is refused. Checked once, with its first member."""
        if state is None:
            return None
        if not state.checked:
            state.checked = True
            state.refusal = self._ledger.why_not_gang(state.gang)
        return state.refusal

    async def _read_back(self, work: Work, order: Bind | Evict) -> Verdict | None:
        """Reads the pod for a verdict: a call without a response may have succeeded."""
        try:
            read = self._world.read_pod(order.namespace, order.name)
            reading = await within(self._clock, self._call_timeout_seconds, read)
        except (ReadError, OSError, TimeoutError) as error:
            return Verdict(OUTCOME_CODE_RETRYING, f"the pod could not be read back: {error}")
        self._metrics.count("read_backs", verb=work.verb)
        return judge_reading(work.decision, reading)

    async def _call(self, work: Work, order: Bind | Evict) -> ApplyResult:
        self._on_call(order)
        if isinstance(order, Bind):
            call = self._world.binder.bind(order)
        else:
            call = self._world.evictor.evict(order)
        what = f"{work.verb} of {work.name}"
        return await call_result(self._clock, self._call_timeout_seconds, call, what)
