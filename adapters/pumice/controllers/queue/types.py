"""Queues, as far as their controller reads them."""

from enum import StrEnum
from typing import Final

import msgspec

from pumice.controllers.runtime.objects import Watched
from pumice.manifests.quantities import Quantity

API_VERSION: Final = "scheduling.volcano.sh/v1beta1"
KIND: Final = "Queue"
ROOT: Final = "root"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"
VALID: Final = "ValidHierarchy"


class State(StrEnum):
    """States of a queue."""

    OPEN = "Open"
    CLOSING = "Closing"
    CLOSED = "Closed"
    UNKNOWN = "Unknown"


SHUT: Final = frozenset({State.CLOSING, State.CLOSED})


class _Guarantee(msgspec.Struct):
    resource: dict[str, Quantity] | None = None


class QueueSpec(msgspec.Struct):
    """The spec of a queue."""

    parent: str = ""
    capability: dict[str, Quantity] | None = None
    deserved: dict[str, Quantity] | None = None
    guarantee: _Guarantee | None = None


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

    @property
    def is_shut(self) -> bool:
        return self.state in SHUT


class Queue(Watched):
    """A queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)

    @property
    def is_root(self) -> bool:
        return self.metadata.name == ROOT

    @property
    def parent(self) -> str:
        """The parent; "" for the root."""
        return "" if self.is_root else self.spec.parent or ROOT

    @property
    def guarantee(self) -> dict[str, Quantity] | None:
        return self.spec.guarantee.resource if self.spec.guarantee is not None else None

    @property
    def is_closed_by_parent(self) -> bool:
        return self.metadata.annotation(CLOSED_BY_PARENT) == "true"
