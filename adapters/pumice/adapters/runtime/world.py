"""The World protocol: a watch of objects, and the calls that change them.

A world is a Kubernetes cluster, a simulation or a replay. Binder, Evictor and StatusUpdater are
separate, so that a third party can replace one of them.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from pumice.adapters.runtime.objects import KindNumber
from pumice.v1.cluster_service_pb2 import Capability
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.delta_pb2 import PluginData
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.status_pb2 import Event, StatusChange


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object was created or changed. The message must not be modified afterwards."""

    object: ClusterObject


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object was deleted."""

    kind: KindNumber
    uid: str


@dataclass(frozen=True, slots=True)
class ConfigurationSeen:
    """The configuration was read or has changed."""

    configuration: Configuration
    # The source, for people.
    source: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationMissing:
    """There is no scheduler configuration where one was expected."""

    # The configuration without the scheduler configuration.
    configuration: Configuration
    source: str
    problem: str


@dataclass(frozen=True, slots=True)
class DataSeen:
    """Data for a plugin was measured or received. Without values, the data is removed."""

    data: PluginData


@dataclass(frozen=True, slots=True)
class Synced:
    """All objects that existed when the watch began have been reported."""


WorldEvent: TypeAlias = (
    ObjectSeen | ObjectGone | ConfigurationSeen | ConfigurationMissing | DataSeen | Synced
)


class ApplyCode(Enum):
    """The result of a call that changes the world."""

    DONE = "done"
    # The pod is already placed; the result has the node.
    PLACED = "placed"
    NOT_FOUND = "not found"
    OTHER_UID = "other uid"
    FORBIDDEN = "forbidden"
    # The call was not sent, because the world refuses such calls at present.
    WITHHELD = "withheld"
    INVALID = "invalid"
    # The object was changed at the same time.
    CONFLICT = "conflict"
    THROTTLED = "throttled"
    SERVER_ERROR = "server error"
    TIMED_OUT = "timed out"
    # The adapter lost the lease before the call was sent.
    NOT_LEADING = "not leading"
    # Something that the call needs, such as a volume, is in progress. Not a failure.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of one call, with details."""

    code: ApplyCode
    # The message of the world, in one line.
    reason: str = ""
    # The node of the pod, for PLACED.
    node: str = ""
    # The version of the object, opaque.
    version: str = ""
    # Time until the next call, for THROTTLED or WAITING.
    retry_after_seconds: float = 0.0


DONE = ApplyResult(ApplyCode.DONE)


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading an object; None: it does not exist."""

    object: ClusterObject | None
    version: str = ""


class ReadError(Exception):
    """An object could not be read. A retry may help."""


class Binder(Protocol):
    """Binds pods to nodes. Calls are retried after failures, so they must be idempotent."""

    async def bind(self, order: Bind) -> ApplyResult: ...


class Evictor(Protocol):
    """Evicts pods. Calls are retried after failures, so they must be idempotent."""

    async def evict(self, order: Evict) -> ApplyResult: ...


class StatusUpdater(Protocol):
    """Writes statuses and events."""

    async def write_status(self, change: StatusChange) -> ApplyResult: ...

    async def write_event(self, event: Event) -> ApplyResult: ...


@runtime_checkable
class DelaysEvents(Protocol):
    """A world that delays events which only confirm what the core assumes."""

    def release_events(self) -> None:
        """Reports all delayed events now, because a new core assumes nothing."""
        ...


class World(Protocol):
    """One cluster: Kubernetes, a simulation or a recording."""

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]: ...

    @property
    def binder(self) -> Binder: ...

    @property
    def evictor(self) -> Evictor: ...

    @property
    def status_updater(self) -> StatusUpdater: ...

    def watch(self) -> AsyncIterator[WorldEvent]:
        """Yields all objects and the configuration, Synced, and then every change until the end."""
        ...

    async def read_pod(self, namespace: str, name: str) -> Reading:
        """Raises ReadError if the world does not respond."""
        ...

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        """Raises ReadError if the world does not respond."""
        ...
