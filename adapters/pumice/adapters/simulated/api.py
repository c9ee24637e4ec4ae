"""The simulated API server: binds, evictions and status writes, with injected faults.

Calls take effect at once and depend only on earlier calls, so that a journal of calls restores the
cluster.
"""

from collections import Counter

from google.protobuf.message import Message

from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.adapters.simulated.controller import ClusterController
from pumice.adapters.simulated.event_queue import EventQueue
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.seeded_random import SeededRandom
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timestamps import Timestamps
from pumice.v1.condition_pb2 import CONDITION_STATUS_FALSE
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import (
    KIND_NODE,
    KIND_POD,
    KIND_POD_GROUP,
    KIND_QUEUE,
    ClusterObject,
    ObjectRef,
)
from pumice.v1.pod_pb2 import POD_PHASE_SUCCEEDED, Pod, PodCondition
from pumice.v1.status_pb2 import (
    Event,
    PodConditionChange,
    PodGroupStatusChange,
    QueueStatusChange,
    StatusChange,
)

_THROTTLE_SECONDS = 0.05
_MOST_EVENTS = 1000


class SimulatedApi:
    """Performs calls on the objects of the cluster."""

    def __init__(
        self,
        options: SimulationOptions,
        store: ObjectStore,
        controller: ClusterController,
        events: EventQueue,
        timestamps: Timestamps,
        report: SimulationReport,
    ) -> None:
        self.written_events: list[Event] = []
        self._options, self._store, self._controller = options, store, controller
        self._events, self._timestamps, self._report = events, timestamps, report
        self._random = SeededRandom(options.seed)
        self._counts: Counter[str] = Counter()

    def answer(self, argument: Message) -> ApplyResult:
        verb, uid = _verb_and_uid(argument)
        self._report.count_call(verb)
        self._counts[f"{verb} {uid}"] += 1
        # Faults depend on verb, uid and number of the call.
        call = (verb, uid, self._counts[f"{verb} {uid}"])
        failure = self._transport_failure(call)
        if failure is not None:
            return failure
        match argument:
            case Bind():
                return self._reply(call, self._bind(argument, call))
            case Evict():
                return self._reply(call, self._evict(argument))
            case StatusChange():
                return self._write_status(argument)
            case Event() if len(self.written_events) < _MOST_EVENTS:
                self.written_events.append(argument)
        return DONE

    def _transport_failure(self, call: tuple[str, str, int]) -> ApplyResult | None:
        faults = self._options.faults
        # Reads are not throttled, so that the outcome of a call can always be determined.
        if call[0] != "read" and self._happens(faults.throttled_calls, "throttle", call):
            seconds = _THROTTLE_SECONDS
            return ApplyResult(
                ApplyCode.THROTTLED, "too many requests", retry_after_seconds=seconds
            )
        if self._happens(faults.server_errors, "error", call):
            return ApplyResult(ApplyCode.SERVER_ERROR, "the server failed")
        return None

    def _reply(self, call: tuple[str, str, int], result: ApplyResult) -> ApplyResult:
        if self._happens(self._options.faults.lost_answers, "lost", call):
            return ApplyResult(ApplyCode.TIMED_OUT, "the response was lost")
        return result

    def _happens(self, rate: float, fault: str, call: tuple[str, str, int]) -> bool:
        return rate > 0 and self._random.draw(fault, *call) < rate

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
        refused = self._happens(self._options.faults.refused_binds, "refuse", call)
        if refused or pod.group_name in self._options.refused_jobs:
            return ApplyResult(ApplyCode.FORBIDDEN, f"pods {pod.name} may not be bound")
        node = self._store.read(KIND_NODE, "", order.node).object
        if node is None:
            return ApplyResult(ApplyCode.INVALID, f"no node {order.node}")
        self._place(pod, node.node, order)
        return DONE

    def _place(self, pod: Pod, node: Node, order: Bind) -> None:
        placed = ClusterObject(pod=pod)
        placed.pod.node_name = order.node
        placed.pod.annotations.update(order.annotations)
        self._store.put(placed)
        self._controller.pod_was_bound(placed.pod)
        used: Counter[str] = Counter()
        for other in self._store.pods_on(node.name):
            if other.phase != POD_PHASE_SUCCEEDED:
                used.update(dict(other.spec.requests))
        if any(amount > node.allocatable[name] for name, amount in used.items()):
            self._report.overcommits += 1

    def _evict(self, order: Evict) -> ApplyResult:
        found = self._store.read(KIND_POD, order.namespace, order.name)
        if found.object is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        if found.object.pod.uid != order.uid:
            return ApplyResult(ApplyCode.OTHER_UID, version=found.version)
        self._controller.evict(order.uid)
        return DONE

    def _write_status(self, change: StatusChange) -> ApplyResult:
        match change.WhichOneof("change"):
            case "pod_group":
                return self._write_group(change.pod_group)
            case "queue":
                return self._write_queue(change.queue)
            case "pod":
                return self._write_pod(change.pod)
        return ApplyResult(ApplyCode.INVALID, "unknown kind of status")

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
            status=CONDITION_STATUS_FALSE,
            reason=change.reason,
            message=change.message,
            transition_time=self._timestamps.at(self._events.second),
        )
        del pod.conditions[:]
        pod.conditions.extend([*others, condition])
        self._store.put(copied)
        return DONE


def _verb_and_uid(argument: Message) -> tuple[str, str]:
    """The verb and the uid of a call."""
    match argument:
        case Bind():
            return "bind", argument.uid
        case Evict():
            return "evict", argument.uid
        case StatusChange():
            return f"{argument.WhichOneof('change')} status", ""
        case Event():
            return "event", ""
        case ObjectRef():
            return "read", argument.uid
    raise TypeError(f"no call takes {type(argument).__name__}")
