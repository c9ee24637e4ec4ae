"""The simulated API: binds, evictions and status writes, with the trouble that was asked for."""

from collections import Counter

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.adapters.simulated.chance import Chance
from pumice.adapters.simulated.furniture import time_ns
from pumice.adapters.simulated.life import ClusterLife
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timeline import Timeline
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, KIND_POD_GROUP, KIND_QUEUE, ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_SUCCEEDED, Pod, PodCondition
from pumice.v1.status_pb2 import (
    Event,
    PodConditionChange,
    PodGroupStatusChange,
    QueueStatusChange,
    StatusChange,
)

_THROTTLE_SECONDS = 0.05
_KEPT_EVENTS = 1000


class SimulatedHands:
    """Binder, evictor and status updater of a simulated cluster."""

    def __init__(
        self,
        options: SimulationOptions,
        store: ObjectStore,
        life: ClusterLife,
        timeline: Timeline,
        clock: Clock,
        report: SimulationReport,
    ) -> None:
        self.events: list[Event] = []
        self._options, self._store, self._life = options, store, life
        self._timeline, self._clock, self._report = timeline, clock, report
        self._chance = Chance(options.seed)
        self._calls: Counter[str] = Counter()

    async def bind(self, order: Bind) -> ApplyResult:
        call = await self._begin("bind", order.uid)
        failure = self._transport_failure(call)
        if failure is not None:
            return failure
        result = self._bind(order, call)
        return self._answer(call, result)

    async def evict(self, order: Evict) -> ApplyResult:
        call = await self._begin("evict", order.uid)
        failure = self._transport_failure(call)
        if failure is not None:
            return failure
        found = self._store.read(KIND_POD, order.namespace, order.name)
        if found.object is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        if found.object.pod.uid != order.uid:
            return ApplyResult(ApplyCode.OTHER_UID, version=found.version)
        self._life.evict(order.uid)
        return self._answer(call, DONE)

    async def write_status(self, change: StatusChange) -> ApplyResult:
        kind = change.WhichOneof("change")
        call = await self._begin(f"{kind} status", "")
        failure = self._transport_failure(call)
        if failure is not None:
            return failure
        match kind:
            case "pod_group":
                return self._write_group(change.pod_group)
            case "queue":
                return self._write_queue(change.queue)
            case "pod":
                return self._write_pod(change.pod)
        return ApplyResult(ApplyCode.INVALID, "a status of no kind")

    async def write_event(self, event: Event) -> ApplyResult:
        call = await self._begin("event", "")
        failure = self._transport_failure(call)
        if failure is not None:
            return failure
        if len(self.events) < _KEPT_EVENTS:
            self.events.append(event)
        return DONE

    # Trouble.

    async def _begin(self, verb: str, uid: str) -> tuple[str, str, int]:
        """Takes its time; the call's own name decides about its trouble."""
        self._report.count_call(verb)
        self._calls[f"{verb} {uid}"] += 1
        call = (verb, uid, self._calls[f"{verb} {uid}"])
        seconds = self._options.call_seconds
        if verb == "bind" and self._strikes(self._options.trouble.slow_binds, "slow", call):
            seconds = self._options.slow_call_seconds
        if seconds:
            await self._clock.sleep(seconds)
        return call

    def _transport_failure(self, call: tuple[str, str, int]) -> ApplyResult | None:
        trouble = self._options.trouble
        if self._strikes(trouble.throttled_calls, "throttle", call):
            seconds = _THROTTLE_SECONDS
            return ApplyResult(
                ApplyCode.THROTTLED, "too many requests", retry_after_seconds=seconds
            )
        if self._strikes(trouble.server_errors, "error", call):
            return ApplyResult(ApplyCode.SERVER_ERROR, "the server is in trouble")
        return None

    def _answer(self, call: tuple[str, str, int], result: ApplyResult) -> ApplyResult:
        if self._strikes(self._options.trouble.lost_answers, "lost", call):
            return ApplyResult(ApplyCode.TIMED_OUT, "the answer was lost")
        return result

    def _strikes(self, rate: float, what: str, call: tuple[str, str, int]) -> bool:
        return rate > 0 and self._chance.draw(what, *call) < rate

    # Binds.

    def _bind(self, order: Bind, call: tuple[str, str, int]) -> ApplyResult:
        found = self._store.read(KIND_POD, order.namespace, order.name)
        if found.object is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        pod = found.object.pod
        if pod.uid != order.uid:
            return ApplyResult(ApplyCode.OTHER_UID, version=found.version)
        if pod.node_name:
            if pod.node_name != order.node:
                self._report.conflicting_binds += 1
            return ApplyResult(ApplyCode.PLACED, node=pod.node_name, version=found.version)
        refused = self._strikes(self._options.trouble.refused_binds, "refuse", call)
        if refused or pod.group_name in self._options.refused_jobs:
            return ApplyResult(ApplyCode.FORBIDDEN, f"pods {pod.name} may not be bound")
        node = self._store.read(KIND_NODE, "", order.node).object
        if node is None:
            return ApplyResult(ApplyCode.INVALID, f"there is no node {order.node}")
        self._place(pod, node.node, order)
        return DONE

    def _place(self, pod: Pod, node: Node, order: Bind) -> None:
        placed = ClusterObject(pod=pod)
        placed.pod.node_name = order.node
        placed.pod.annotations.update(order.annotations)
        self._store.put(placed)
        self._life.pod_was_bound(placed.pod)
        used: Counter[str] = Counter()
        for other in self._store.pods_on(node.name):
            if other.phase != POD_PHASE_SUCCEEDED:
                used.update(dict(other.spec.requests))
        if any(amount > node.allocatable[name] for name, amount in used.items()):
            self._report.overcommits += 1

    # Statuses.

    def _write_group(self, change: PodGroupStatusChange) -> ApplyResult:
        copied = self._store.copy(KIND_POD_GROUP, change.uid)
        if copied is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        copied.pod_group.status.CopyFrom(change.status)
        self._store.put(copied)
        return DONE

    def _write_queue(self, change: QueueStatusChange) -> ApplyResult:
        copied = self._store.copy(KIND_QUEUE, change.uid)
        if copied is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        copied.queue.allocated.clear()
        copied.queue.allocated.update(change.allocated)
        self._store.put(copied)
        return DONE

    def _write_pod(self, change: PodConditionChange) -> ApplyResult:
        copied = self._store.copy(KIND_POD, change.uid)
        if copied is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        pod = copied.pod
        if change.nominated_node_name:
            pod.nominated_node_name = change.nominated_node_name
        others = [condition for condition in pod.conditions if condition.type != "PodScheduled"]
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason=change.reason,
            message=change.message,
            transition_time_ns=time_ns(self._timeline.now()),
        )
        del pod.conditions[:]
        pod.conditions.extend([*others, condition])
        self._store.put(copied)
        return DONE
