"""The simulated API server: what binds, evictions and writes do, and the trouble asked for.

Everything here happens at once and depends on nothing but the calls before, so that a journal of
calls is all there is to keep.
"""

from collections import Counter

from google.protobuf.message import Message

from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.adapters.simulated.chance import Chance
from pumice.adapters.simulated.furniture import timestamp
from pumice.adapters.simulated.life import ClusterLife
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timeline import Timeline
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
_KEPT_EVENTS = 1000


class SimulatedApi:
    """Answers calls to the cluster."""

    def __init__(
        self,
        options: SimulationOptions,
        store: ObjectStore,
        life: ClusterLife,
        timeline: Timeline,
        report: SimulationReport,
    ) -> None:
        self.events: list[Event] = []
        self._options, self._store, self._life = options, store, life
        self._timeline, self._report = timeline, report
        self._chance = Chance(options.seed)
        self._counts: Counter[str] = Counter()

    def answer(self, argument: Message) -> ApplyResult:
        verb, uid = _named(argument)
        self._report.count_call(verb)
        self._counts[f"{verb} {uid}"] += 1
        # The call's own name decides about its trouble.
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
            case Event() if len(self.events) < _KEPT_EVENTS:
                self.events.append(argument)
        return DONE

    # Trouble.

    def _transport_failure(self, call: tuple[str, str, int]) -> ApplyResult | None:
        trouble = self._options.trouble
        # Reading is not throttled: nobody could find out what became of anything.
        if call[0] != "read" and self._strikes(trouble.throttled_calls, "throttle", call):
            seconds = _THROTTLE_SECONDS
            return ApplyResult(
                ApplyCode.THROTTLED, "too many requests", retry_after_seconds=seconds
            )
        if self._strikes(trouble.server_errors, "error", call):
            return ApplyResult(ApplyCode.SERVER_ERROR, "the server is in trouble")
        return None

    def _reply(self, call: tuple[str, str, int], result: ApplyResult) -> ApplyResult:
        if self._strikes(self._options.trouble.lost_answers, "lost", call):
            return ApplyResult(ApplyCode.TIMED_OUT, "the answer was lost")
        return result

    def _strikes(self, rate: float, what: str, call: tuple[str, str, int]) -> bool:
        return rate > 0 and self._chance.draw(what, *call) < rate

    # Pods.

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

    def _evict(self, order: Evict) -> ApplyResult:
        found = self._store.read(KIND_POD, order.namespace, order.name)
        if found.object is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        if found.object.pod.uid != order.uid:
            return ApplyResult(ApplyCode.OTHER_UID, version=found.version)
        self._life.evict(order.uid)
        return DONE

    # Statuses.

    def _write_status(self, change: StatusChange) -> ApplyResult:
        match change.WhichOneof("change"):
            case "pod_group":
                return self._write_group(change.pod_group)
            case "queue":
                return self._write_queue(change.queue)
            case "pod":
                return self._write_pod(change.pod)
        return ApplyResult(ApplyCode.INVALID, "a status of no kind")

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
            transition_time=timestamp(self._timeline.now()),
        )
        del pod.conditions[:]
        pod.conditions.extend([*others, condition])
        self._store.put(copied)
        return DONE


def _named(argument: Message) -> tuple[str, str]:
    """How a call is counted, and whom it concerns."""
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
