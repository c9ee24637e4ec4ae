"""Queues, as far as controllers read them."""

from enum import StrEnum
from typing import Final

import msgspec

from pumice.controllers.runtime.objects import ApiObject, Manifest
from pumice.manifests.quantities import Quantity

ROOT: Final = "root"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"
# Type of the condition about the position of a queue in the hierarchy.
VALID_HIERARCHY: Final = "ValidHierarchy"


class State(StrEnum):
    """States of a queue."""

    OPEN = "Open"
    CLOSING = "Closing"
    CLOSED = "Closed"
    UNKNOWN = "Unknown"


class _Guarantee(msgspec.Struct):
    resource: dict[str, Quantity] | None = None


class QueueSpec(msgspec.Struct, rename="camel"):
    """The spec of a queue."""

    parent: str = ""
    capability: dict[str, Quantity] | None = None
    deserved: dict[str, Quantity] | None = None
    guarantee: _Guarantee | None = None
    extend_clusters: list[Manifest] | None = None


class Condition(msgspec.Struct, rename="camel", omit_defaults=True):
    """One condition of a queue."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class QueueStatus(msgspec.Struct):
    """The state of a queue, and its PodGroups by phase."""

    state: str = ""
    pending: int = 0
    running: int = 0
    unknown: int = 0
    inqueue: int = 0
    completed: int = 0
    conditions: list[Condition] | None = None


class Queue(ApiObject):
    """A queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)

    @property
    def is_root(self) -> bool:
        return self.metadata.name == ROOT

    @property
    def parent(self) -> str:
        """The name of the parent; "" for the root."""
        return "" if self.is_root else self.spec.parent or ROOT

    @property
    def guarantee(self) -> dict[str, Quantity] | None:
        return self.spec.guarantee.resource if self.spec.guarantee is not None else None

    @property
    def is_closed(self) -> bool:
        """Whether the queue takes no jobs: it is Closed or Closing."""
        return self.status.state in (State.CLOSED, State.CLOSING)

    @property
    def is_closed_by_parent(self) -> bool:
        return self.metadata.annotation(CLOSED_BY_PARENT) == "true"

    @property
    def forwards_jobs(self) -> bool:
        """Whether jobs of the queue may run in other clusters."""
        return bool(self.spec.extend_clusters)
