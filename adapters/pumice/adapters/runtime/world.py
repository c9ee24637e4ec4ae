"""What the runtime asks of a world: events of objects, and hands that act on it.

A world is a Kubernetes cluster, a simulation, a replay. Binder, Evictor and StatusUpdater are
separate so that a third party can replace one of them and keep the rest.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from pumice.adapters.runtime.objects import KindNumber
from pumice.v1.cluster_service_pb2 import Capability
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.status_pb2 import Event, StatusChange


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object is there, whole, as it is now. The message must not be changed afterwards."""

    object: ClusterObject


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object is not there any more."""

    kind: KindNumber
    uid: str


@dataclass(frozen=True, slots=True)
class ConfigurationSeen:
    """How the cluster is to be scheduled from now on."""

    configuration: Configuration
    # Where it was read, for people.
    source: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationMissing:
    """There is no scheduler configuration where one was expected."""

    # All of the configuration but the scheduler's own text.
    configuration: Configuration
    source: str
    problem: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that was there when the watch began has been told."""


WorldEvent: TypeAlias = ObjectSeen | ObjectGone | ConfigurationSeen | ConfigurationMissing | Synced


class ApplyCode(Enum):
    """What a world said to a call that was to change it."""

    DONE = "done"
    # A bind found the pod placed; the result names the node.
    PLACED = "placed"
    NOT_FOUND = "not found"
    OTHER_UID = "other uid"
    FORBIDDEN = "forbidden"
    INVALID = "invalid"
    # Somebody else changed the object at the same moment.
    CONFLICT = "conflict"
    THROTTLED = "throttled"
    SERVER_ERROR = "server error"
    TIMED_OUT = "timed out"
    # This adapter lost the lease before the call left: another one does the work.
    NOT_LEADING = "not leading"
    # What the call needs is under way and takes its time, such as a volume: no failed try.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The answer to one call."""

    code: ApplyCode
    # What the world said, in a line.
    reason: str = ""
    # With PLACED: where the pod is.
    node: str = ""
    # The version of the object that was seen, opaque.
    version: str = ""
    # With THROTTLED or WAITING: how long the world asks to be left alone.
    retry_after_seconds: float = 0.0


DONE = ApplyResult(ApplyCode.DONE)


@dataclass(frozen=True, slots=True)
class Reading:
    """An object read afresh; none: it is not there."""

    object: ClusterObject | None
    version: str = ""


class ReadError(Exception):
    """An object could not be read now; trying later may help."""


class Binder(Protocol):
    """Puts pods on nodes. Called again after a failure, so it must bear repetition."""

    async def bind(self, order: Bind) -> ApplyResult: ...


class Evictor(Protocol):
    """Takes pods away. Called again after a failure, so it must bear repetition."""

    async def evict(self, order: Evict) -> ApplyResult: ...


class StatusUpdater(Protocol):
    """Writes what the core has to say about objects."""

    async def write_status(self, change: StatusChange) -> ApplyResult: ...

    async def write_event(self, event: Event) -> ApplyResult: ...


class World(Protocol):
    """One cluster, whatever it is made of."""

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]: ...

    @property
    def binder(self) -> Binder: ...

    @property
    def evictor(self) -> Evictor: ...

    @property
    def status_updater(self) -> StatusUpdater: ...

    def watch(self) -> AsyncIterator[WorldEvent]:
        """All objects and the configuration, Synced, then every change. Ends with the world."""
        ...

    async def read_pod(self, namespace: str, name: str) -> Reading:
        """Raises ReadError when the world does not answer."""
        ...

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        """Raises ReadError when the world does not answer."""
        ...
