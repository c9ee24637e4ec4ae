"""The world of shadow mode: the events of another world, some delayed, without writes.

Its binder and evictor wait for the decisions of the other scheduler.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import (
    DONE,
    ApplyCode,
    ApplyResult,
    ObjectGone,
    ObjectSeen,
    Reading,
    Synced,
    World,
    WorldEvent,
)
from pumice.adapters.shadow.comparison import Comparison
from pumice.adapters.shadow.node_equivalence import NodeEquivalence
from pumice.adapters.shadow.records import job_of
from pumice.v1.cluster_service_pb2 import Capability
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, ClusterObject
from pumice.v1.status_pb2 import Event, StatusChange

_NOT_DONE = "not applied, because this adapter is a shadow"


class ShadowBinder:
    """Binder and evictor of a shadow.

    The result of a decision is WAITING while it is compared, and then that the pod is elsewhere. The
    core assumes its decision for a moment, as if it scheduled the cluster, and then sees the actual
    state. No result is a failure, because after failures a core skips a job for some time, and
    would decide differently than without a shadow.
    """

    def __init__(
        self, comparison: Comparison, clock: Clock, recheck: Callable[[str], None]
    ) -> None:
        self._comparison, self._clock, self._recheck = comparison, clock, recheck

    async def bind(self, order: Bind) -> ApplyResult:
        left = self._comparison.propose_bind(order, self._clock.now())
        if left > 0:
            return _waiting(left)
        node = self._comparison.node_of(order.uid)
        self._recheck(order.uid)
        if node is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        # Another node than the decided one, or none, is not a failure.
        return ApplyResult(ApplyCode.PLACED, "" if node else _NOT_DONE, node)

    async def evict(self, order: Evict) -> ApplyResult:
        left = self._comparison.propose_eviction(order, self._clock.now())
        if left > 0:
            return _waiting(left)
        node = self._comparison.node_of(order.uid)
        is_evicted = self._comparison.is_evicted(order.uid)
        self._recheck(order.uid)
        if node is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        # For an eviction, too, PLACED is not a failure.
        return DONE if is_evicted else ApplyResult(ApplyCode.PLACED, _NOT_DONE, node)


class ShadowStatusUpdater:
    """Counts statuses and events instead of writing them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def write_status(self, change: StatusChange) -> ApplyResult:
        self._metrics.count("shadow_unwritten", what="status")
        return DONE

    async def write_event(self, event: Event) -> ApplyResult:
        self._metrics.count("shadow_unwritten", what="event")
        return DONE


def _waiting(left: float) -> ApplyResult:
    return ApplyResult(ApplyCode.WAITING, _NOT_DONE, retry_after_seconds=left)


@dataclass(slots=True)
class _Withheld:
    """The last version of a pod that the core must not get yet."""

    seen: ObjectSeen
    timer: "asyncio.Task[None]"
    # The number of the stream to the core at the beginning; 0: none.
    stream: int
    gone: ObjectGone | None = None


class ShadowWorld:
    """Wraps a world and changes nothing in it."""

    def __init__(
        self,
        world: World,
        comparison: Comparison,
        scheduler_names: Sequence[str],
        clock: Clock,
        metrics: Metrics,
        *,
        nodes: NodeEquivalence | None = None,
        serving_stream: Callable[[], int] = lambda: 1,
    ) -> None:
        self._nodes = nodes or NodeEquivalence(comparison.wait_seconds)
        self._world, self._comparison, self._clock = world, comparison, clock
        self._names = frozenset(scheduler_names)
        # The number of the stream to a core that can decide; 0: there is none.
        self._serving_stream = serving_stream
        self._binder = ShadowBinder(comparison, clock, self._recheck)
        self._statuses = ShadowStatusUpdater(metrics)
        self._ready: deque[WorldEvent] = deque()
        self._filled = asyncio.Event()
        self._withheld: dict[str, _Withheld] = {}
        # The last versions of pods that the core got, and uids by namespace and name.
        self._passed: dict[str, ClusterObject] = {}
        self._uids: dict[tuple[str, str], str] = {}

    # The World protocol.

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]:
        return self._world.capabilities

    @property
    def binder(self) -> ShadowBinder:
        return self._binder

    @property
    def evictor(self) -> ShadowBinder:
        return self._binder

    @property
    def status_updater(self) -> ShadowStatusUpdater:
        return self._statuses

    async def read_pod(self, namespace: str, name: str) -> Reading:
        """The version that the core has, because a newer one may be withheld."""
        passed = self._passed.get(self._uids.get((namespace, name), ""))
        return (
            Reading(passed) if passed is not None else await self._world.read_pod(namespace, name)
        )

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        return await self._world.read_object(kind, namespace, name)

    async def watch(self) -> AsyncIterator[WorldEvent]:
        reader = asyncio.create_task(self._read_events())
        reader.add_done_callback(lambda _: self._filled.set())
        try:
            while True:
                while self._ready:
                    yield self._ready.popleft()
                if reader.done():
                    reader.result()
                    return
                self._filled.clear()
                await self._filled.wait()
        finally:
            await end_tasks(reader, *(held.timer for held in self._withheld.values()))

    # Events of the world.

    async def _read_events(self) -> None:
        async for event in self._world.watch():
            self._handle(event)

    def _handle(self, event: WorldEvent) -> None:
        self._follow(event)
        match event:
            case ObjectSeen() if event.object.HasField("pod"):
                self._handle_pod(event)
            case ObjectGone() if event.kind == KIND_POD:
                self._handle_gone(event)
            case Synced():
                self._comparison.begin()
                self._pass(event)
            case _:
                self._pass(event)

    def _follow(self, event: WorldEvent) -> None:
        """Tracks nodes and their pods in the actual state, not as the core has it."""
        match event:
            case ObjectSeen() if event.object.HasField("node"):
                self._nodes.note_node(event.object.node)
            case ObjectGone() if event.kind == KIND_NODE:
                self._nodes.forget_node(event.uid)
            case ObjectSeen() if event.object.HasField("pod"):
                pod = event.object.pod
                self._nodes.note_pod(pod, job_of(pod), self._clock.now())
            case ObjectGone() if event.kind == KIND_POD:
                self._nodes.forget_pod(event.uid)

    def _handle_pod(self, event: ObjectSeen) -> None:
        pod = event.object.pod
        if pod.spec.scheduler_name not in self._names:
            self._pass(event)
            return
        key = (pod.namespace, pod.name)
        last = self._uids.get(key, pod.uid)
        if last != pod.uid:
            # A new pod has its name, so the old one can no longer be withheld.
            self._give_up(last)
        self._uids[key] = pod.uid
        held = self._withheld.get(pod.uid)
        if held is not None:
            held.seen = event
        elif self._comparison.seen(pod, self._clock.now()):
            self._passed[pod.uid] = event.object
            self._pass(event)
        else:
            timer = asyncio.get_running_loop().create_task(self._wait(pod.uid))
            self._withheld[pod.uid] = _Withheld(event, timer, self._serving_stream())

    def _handle_gone(self, event: ObjectGone) -> None:
        held = self._withheld.get(event.uid)
        if held is not None:
            held.gone = event
            return
        self._comparison.gone(event.uid, self._clock.now())
        passed = self._passed.pop(event.uid, None)
        if passed is not None:
            key = (passed.pod.namespace, passed.pod.name)
            if self._uids.get(key) == event.uid:
                del self._uids[key]
        self._pass(event)

    def _pass(self, event: WorldEvent) -> None:
        self._ready.append(event)
        self._filled.set()

    # Withheld pods.

    async def _wait(self, uid: str) -> None:
        await self._clock.sleep(self._comparison.wait_seconds)
        self._give_up(uid)

    def _give_up(self, uid: str) -> None:
        held = self._withheld.get(uid)
        if held is not None:
            # A core that was disconnected in between may have run no session.
            compared = bool(held.stream) and held.stream == self._serving_stream()
            self._comparison.overdue(uid, self._clock.now(), compared=compared)
            self._release(uid)

    def _recheck(self, uid: str) -> None:
        """Checks a withheld pod again after a proposal."""
        held = self._withheld.get(uid)
        if held is not None and self._comparison.seen(held.seen.object.pod, self._clock.now()):
            self._release(uid)

    def _release(self, uid: str) -> None:
        """Passes a withheld pod on, unless its next change must also wait."""
        held = self._withheld.pop(uid, None)
        if held is None:
            return
        if held.timer is not asyncio.current_task():
            held.timer.cancel()
        self._handle_pod(held.seen)
        if held.gone is not None:
            self._handle_gone(held.gone)
