"""A small world whose answers a test writes down beforehand."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import (
    DONE,
    ApplyResult,
    ConfigurationSeen,
    ReadError,
    Reading,
    WorldEvent,
)
from pumice.adapters.simulated.store import ObjectStore
from pumice.v1.cluster_service_pb2 import CAPABILITY_EVICT, Capability
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Bind, Decision, Evict, Gang
from pumice.v1.group_pb2 import PodGroup
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP, ClusterObject
from pumice.v1.pod_pb2 import Pod
from pumice.v1.status_pb2 import Event, StatusChange

Answer: TypeAlias = ApplyResult | Exception | Callable[[], Awaitable[ApplyResult]]


class FakeWorld:
    """Objects in a store; a call is answered as scripted, or done."""

    def __init__(self) -> None:
        self.store = ObjectStore()
        self.answers: dict[str, list[Answer]] = defaultdict(list)
        self.unreadable = 0
        self.calls: list[tuple[str, str]] = []
        self.configuration = Configuration(default_queue="default")

    capabilities: Sequence[Capability.ValueType] = (CAPABILITY_EVICT,)

    @property
    def binder(self) -> "FakeWorld":
        return self

    @property
    def evictor(self) -> "FakeWorld":
        return self

    @property
    def status_updater(self) -> "FakeWorld":
        return self

    def watch(self) -> AsyncIterator[WorldEvent]:
        return self.store.watch(ConfigurationSeen(self.configuration))

    async def bind(self, order: Bind) -> ApplyResult:
        self.calls.append(("bind", order.name))
        answer = await self._answer(order.name)
        if answer is None:
            self.place(order.uid, order.node)
        return answer or DONE

    async def evict(self, order: Evict) -> ApplyResult:
        self.calls.append(("evict", order.name))
        answer = await self._answer(order.name)
        if answer is None:
            copied = self.store.copy(KIND_POD, order.uid)
            assert copied is not None
            copied.pod.terminating = True
            self.store.put(copied)
        return answer or DONE

    async def write_status(self, change: StatusChange) -> ApplyResult:
        name = getattr(change, change.WhichOneof("change") or "").name
        self.calls.append(("status", name))
        answer = await self._answer(f"status {name}")
        if answer is None and change.HasField("pod_group"):
            copied = self.store.copy(KIND_POD_GROUP, change.pod_group.uid)
            assert copied is not None
            copied.pod_group.status.CopyFrom(change.pod_group.status)
            self.store.put(copied)
        return answer or DONE

    async def write_event(self, event: Event) -> ApplyResult:
        self.calls.append(("event", event.message))
        return await self._answer(f"event {event.name}") or DONE

    async def read_pod(self, namespace: str, name: str) -> Reading:
        return await self.read_object(KIND_POD, namespace, name)

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        self.calls.append(("read", name))
        if self.unreadable:
            self.unreadable -= 1
            raise ReadError("nobody answers")
        return self.store.read(kind, namespace, name)

    def place(self, uid: str, node: str) -> None:
        copied = self.store.copy(KIND_POD, uid)
        assert copied is not None
        copied.pod.node_name = node
        self.store.put(copied)

    def called(self, verb: str) -> list[str]:
        return [name for called, name in self.calls if called == verb]

    async def _answer(self, name: str) -> ApplyResult | None:
        script = self.answers[name]
        if not script:
            return None
        answer = script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ApplyResult):
            return answer
        return await answer()


def pod(name: str, *, uid: str = "", node: str = "", group: str = "job") -> ClusterObject:
    return ClusterObject(
        pod=Pod(
            uid=uid or f"uid-{name}", namespace="ns", name=name, node_name=node, group_name=group
        )
    )


def group(name: str = "job", *, uid: str = "", spec_hash: str = "h1") -> ClusterObject:
    return ClusterObject(
        pod_group=PodGroup(
            uid=uid or f"uid-{name}", namespace="ns", name=name, min_member=1, spec_hash=spec_hash
        )
    )


def node(name: str) -> ClusterObject:
    return ClusterObject(node=Node(uid=f"uid-{name}", name=name))


def bind(pod_name: str, node_name: str = "n1", *, uid: str = "", gang_id: str = "") -> Decision:
    order = Bind(namespace="ns", name=pod_name, uid=uid or f"uid-{pod_name}", node=node_name)
    return Decision(id=f"d-{pod_name}", gang_id=gang_id, bind=order)


def evict(pod_name: str, *, gang_id: str = "") -> Decision:
    order = Evict(namespace="ns", name=pod_name, uid=f"uid-{pod_name}", reason="preempt")
    return Decision(id=f"e-{pod_name}", gang_id=gang_id, evict=order)


def gang(size: int, *, uid: str = "uid-job", spec_hash: str = "h1") -> Gang:
    return Gang(id="g1", job="ns/job", pod_group_uid=uid, spec_hash=spec_hash, size=size)
