"""Delays watch events that only confirm binds of this adapter.

The core assumes a bind as soon as it has decided it, so the pod with its node adds nothing. Decoding
and sending the event takes as long as binding another pod. So the store of pods keeps the raw event.
A later version of the pod replaces it. A version with more changes, such as a running pod, is
handled at once. The remaining events are handled after a delay, which is longer while binds are in
flight.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.adapters.kubernetes.object_head import UNREADABLE, Head
from pumice.adapters.runtime.clock import Clock
from pumice.v1.decision_pb2 import Bind

# Maximum number of delayed events. Further events are handled at once.
_MOST_KEPT: Final = 5000
# Delay of an event, without and with binds in flight. A pod with a local image starts within two
# seconds.
_QUIET_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 5.0
# Maximum number of binds that wait for a confirmation.
_MOST_BINDS: Final = 20_000
# Number of events that are handled at once, so that binds and other watches can proceed.
_AT_ONCE: Final = 20
_LOOK_SECONDS: Final = 0.02


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _PodState(msgspec.Struct, gc=False):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_STATE: Final = msgspec.json.Decoder(_PodState)

Handle = Callable[[Head, msgspec.Raw], None]


@dataclass(slots=True)
class _Kept:
    """A delayed event: the last version of a pod, and its handler."""

    head: Head
    raw: msgspec.Raw
    handle: Handle
    # Arrival of the first version.
    since: float


class BindConfirmations:
    """The binds in flight, and the delayed watch events that confirm binds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_flight = 0
        # The node of each bind that is not confirmed yet, by the uid of the pod.
        self._nodes: OrderedDict[str, str] = OrderedDict()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._kept)

    # Calls of the binder.

    def begin(self, order: Bind) -> None:
        self._in_flight += 1
        self._nodes[order.uid] = order.node
        if len(self._nodes) > _MOST_BINDS:
            self._nodes.popitem(last=False)

    def end(self) -> None:
        self._in_flight -= 1

    # Calls of the store of pods.

    def keep(self, head: Head, raw: msgspec.Raw, handle: Handle) -> bool:
        """Delays an event that only confirms a bind; returns whether it did."""
        uid = head.metadata.uid
        if uid not in self._nodes:
            # A bind that is no longer remembered: the delayed event is older than this one.
            self._kept.pop(uid, None)
            return False
        kept = self._kept.get(uid)
        state = _read(raw)
        if not self._confirms(head, state):
            self._kept.pop(uid, None)
            if state is None or state.spec.node_name:
                # No later version can confirm the bind.
                del self._nodes[uid]
            return False
        if kept is not None:
            kept.head, kept.raw = head, raw
        elif len(self._kept) < _MOST_KEPT:
            self._kept[uid] = _Kept(head, raw, handle, self._clock.now())
            self._filled.set()
        else:
            return False
        return True

    def forget(self, uid: str) -> None:
        """Drops the event of a pod, which has a newer version or was deleted."""
        self._nodes.pop(uid, None)
        self._kept.pop(uid, None)

    def forget_all(self, handle: Handle) -> None:
        """Drops the events of one store, because a new list has newer versions."""
        for uid in [uid for uid, kept in self._kept.items() if kept.handle == handle]:
            del self._kept[uid]

    def release_all(self) -> None:
        """Handles all delayed events now."""
        while self._kept:
            self._release()

    async def run(self) -> None:
        """Handles events after their delay, until it is cancelled."""
        while True:
            await self._filled.wait()
            while self._kept:
                if self._is_due():
                    self._release()
                    await asyncio.sleep(0)
                else:
                    await self._clock.sleep(_LOOK_SECONDS)
            self._filled.clear()

    def _is_due(self) -> bool:
        first = next(iter(self._kept.values()))
        longest = _LONGEST_SECONDS if self._in_flight else _QUIET_SECONDS
        return self._clock.now() - first.since >= longest

    def _release(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._kept))):
            uid, kept = self._kept.popitem(last=False)
            self._nodes.pop(uid, None)
            kept.handle(kept.head, kept.raw)

    def _confirms(self, head: Head, state: _PodState | None) -> bool:
        if state is None or head.metadata.deletion_timestamp is not None:
            return False
        is_bound = state.spec.node_name == self._nodes[head.metadata.uid]
        return is_bound and state.status.phase == "Pending"


def _read(raw: msgspec.Raw) -> _PodState | None:
    try:
        return _STATE.decode(raw)
    except UNREADABLE:
        return None
