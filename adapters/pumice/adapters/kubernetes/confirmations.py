"""Watch events that only confirm binds of this adapter are handled after the binds.

The core assumes a bind as soon as it has decided it, so the pod with its node is no news. To decode and
send it takes as long as to bind another pod. The store of pods therefore keeps such an event as it is.
A later version of the pod takes its place; a version that says more, such as that the pod runs, is
handled at once. What is left is handled after a while, and later than that while binds are in flight.
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

# So many confirmations are kept at most; further ones are handled at once.
_MOST_KEPT: Final = 5000
# How long they are kept: a pod starts within a second or two, if its image is there. While binds are in
# flight, it is longer.
_QUIET_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 5.0
# So many binds are remembered until they are confirmed.
_MOST_BINDS: Final = 20_000
# Handled in one go; binds and other watches go on in between.
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
    """The last version of a pod that waits, and who handles it."""

    head: Head
    raw: msgspec.Raw
    handle: Handle
    # When the first such version came.
    since: float


class BindConfirmations:
    """The binds in flight, and the watch events that confirm them and wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_flight = 0
        # The node of each bind that was asked for and is not confirmed yet, by the uid of the pod.
        self._nodes: OrderedDict[str, str] = OrderedDict()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._kept)

    # What the binder calls.

    def begin(self, order: Bind) -> None:
        self._in_flight += 1
        self._nodes[order.uid] = order.node
        if len(self._nodes) > _MOST_BINDS:
            self._nodes.popitem(last=False)

    def end(self) -> None:
        self._in_flight -= 1

    # What the store of pods calls.

    def keep(self, head: Head, raw: msgspec.Raw, handle: Handle) -> bool:
        """Keeps an event for later, if it only confirms a bind."""
        uid = head.metadata.uid
        if uid not in self._nodes:
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
        """Drops what is kept of a pod: there is a newer version, or the pod is gone."""
        self._nodes.pop(uid, None)
        self._kept.pop(uid, None)

    def forget_all(self, handle: Handle) -> None:
        """Drops what is kept for one store: a new list has the newest versions."""
        for uid in [uid for uid, kept in self._kept.items() if kept.handle == handle]:
            del self._kept[uid]

    def hand_on_all(self) -> None:
        """Hands on all that is kept."""
        while self._kept:
            self._hand_on()

    async def run(self) -> None:
        """Hands events on when it is time, for ever."""
        while True:
            await self._filled.wait()
            while self._kept:
                if self._is_time():
                    self._hand_on()
                    await asyncio.sleep(0)
                else:
                    await self._clock.sleep(_LOOK_SECONDS)
            self._filled.clear()

    def _is_time(self) -> bool:
        first = next(iter(self._kept.values()))
        longest = _LONGEST_SECONDS if self._in_flight else _QUIET_SECONDS
        return self._clock.now() - first.since >= longest

    def _hand_on(self) -> None:
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
