"""The outbox: ops that wait to be sent, and ops that were sent and are not acknowledged.

Ops get their numbers when they are sent, so waiting ops can be coalesced without gaps. A newer version
of an object replaces the one that waits, at its place in the queue. A waiting tombstone is not
replaced: later ops, even of the same uid, come after it.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from pumice.adapters.runtime.buffer import HeldObject, ResumeBuffer
from pumice.adapters.runtime.digests import DigestTable
from pumice.adapters.runtime.encoding import (
    BATCH_OVERHEAD_BYTES,
    OP_OVERHEAD_BYTES,
    configuration_op,
    data_op,
    outcome_op,
    tombstone_op,
    upsert_op,
)
from pumice.adapters.runtime.objects import KindNumber, ObjectKey
from pumice.v1.cluster_service_pb2 import SnapshotBegin, SnapshotEnd
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import OUTCOME_CODE_APPLIED, OUTCOME_CODE_RETRYING, Outcome
from pumice.v1.delta_pb2 import KindDigest, PluginData

_NO_KIND = KindNumber(0)
# The maximum number of configurations that wait for their result.
_MOST_CONFIGURATIONS = 16
_CONFIGURATION: ObjectKey = (_NO_KIND, "configuration")


@dataclass(slots=True)
class _Waiting:
    """An op without a number yet."""

    # None: an outcome, of which there may be many.
    key: ObjectKey | None
    # Upserts only.
    held: HeldObject | None = None
    # All other ops, which are encoded at once.
    op: bytes = b""
    # Final outcomes only.
    decision_id: str = ""
    in_snapshot: bool = False
    # The core assumes it already, or it is a report of a node: it can be sent together with others.
    can_wait: bool = False

    @property
    def size(self) -> int:
        body = len(self.op) if self.held is None else len(self.held.body) + 16
        return body + OP_OVERHEAD_BYTES


@dataclass(slots=True)
class _Sent:
    """An op with a number, kept until it is acknowledged."""

    seq: int
    op: bytes
    decision_id: str = ""
    kind: KindNumber = _NO_KIND
    # Its changes to the digest of its kind.
    count: int = 0
    hash_sum: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded ops of consecutive numbers."""

    first_seq: int
    ops: list[bytes]


class Outbox:
    """Numbers ops, coalesces those that wait, and stores those that are not acknowledged."""

    def __init__(self, buffer: ResumeBuffer, wake: Callable[[], None] = lambda: None) -> None:
        self._buffer = buffer
        self._wake = wake
        self._queue: OrderedDict[int, _Waiting] = OrderedDict()
        self._tokens: dict[ObjectKey, int] = {}
        self._token = 0
        # The configurations that were sent last, by number.
        self.sent_configurations: OrderedDict[int, Configuration] = OrderedDict()
        self.waiting_bytes = 0
        # The number of waiting ops that must be sent soon.
        self._urgent_count = 0
        self.coalesced = 0
        self._oversized: list[HeldObject] = []
        self.reset()

    def reset(self) -> None:
        """Begins a new incarnation with number 1. Its snapshot replaces all waiting ops."""
        self.last_seq = 0
        self.acknowledged_seq = 0
        # No stream can be resumed before its first snapshot.
        self._resumable_seq = 1
        self.sent_configurations.clear()
        self._snapshot_left = 0
        self._snapshot_kinds: list[KindNumber] | None = None
        self._sent: deque[_Sent] = deque()
        self._resend: deque[_Sent] = deque()
        self._numbered: dict[ObjectKey, int] = {}
        self._numbered_digests = DigestTable()
        self._acknowledged_digests = DigestTable()
        self._clear_queue()

    # Input from the world.

    def upsert(self, item: HeldObject, *, can_wait: bool = False) -> None:
        """Sends a version of an object; one that can wait is sent together with others."""
        waiting = self._waiting(item.key)
        if waiting is None or waiting.held is None:
            self._append(_Waiting(item.key, item, can_wait=can_wait))
            return
        self.waiting_bytes += len(item.body) - len(waiting.held.body)
        waiting.held = item
        if not can_wait:
            self._make_urgent(waiting)
        self.coalesced += 1

    def tombstone(self, kind: KindNumber, uid: str, *, asked: bool = False) -> None:
        """Sends a deletion if the core may have the object, or if the core asked for it."""
        key = (kind, uid)
        waiting = self._waiting(key)
        if waiting is not None and waiting.held is None:
            return
        if waiting is not None:
            self.coalesced += 1
            if waiting.in_snapshot or key not in self._numbered:
                self._remove(key)
                self._wake()
                return
            self.waiting_bytes -= waiting.size
            waiting.held, waiting.op = None, tombstone_op(kind, uid)
            self.waiting_bytes += waiting.size
            self._make_urgent(waiting)
        elif asked or key in self._numbered:
            self._append(_Waiting(key, op=tombstone_op(kind, uid)))

    def configure(self) -> None:
        """Sends the configuration of the buffer."""
        if self._buffer.configuration is None:
            return
        self._replace_op(_CONFIGURATION, configuration_op(self._buffer.configuration))

    def put_data(self, data: PluginData) -> None:
        """Sends data for a plugin. It replaces waiting data of the same name."""
        self._replace_op(_data_key(data), data_op(data))

    def report(self, outcome: Outcome) -> None:
        final = outcome.code != OUTCOME_CODE_RETRYING
        decision_id = outcome.decision_id if final else ""
        can_wait = outcome.code == OUTCOME_CODE_APPLIED
        op = outcome_op(outcome)
        self._append(_Waiting(None, op=op, decision_id=decision_id, can_wait=can_wait))

    # Output to the stream.

    @property
    def has_work(self) -> bool:
        return bool(self._queue or self._resend or self._snapshot_kinds is not None)

    @property
    def has_urgent_work(self) -> bool:
        """Whether a waiting op must be sent soon."""
        return bool(self._urgent_count or self._resend or self._snapshot_kinds is not None)

    @property
    def next_seq(self) -> int:
        """The number of the next op."""
        return self._resend[0].seq if self._resend else self.last_seq + 1

    @property
    def is_resending(self) -> bool:
        """Whether ops are sent again; a snapshot of some kinds has to wait for them."""
        return bool(self._resend)

    @property
    def in_snapshot(self) -> bool:
        return self._snapshot_kinds is not None

    def acknowledged_digests(self) -> list[KindDigest]:
        return self._acknowledged_digests.messages()

    def digests(self) -> list[KindDigest]:
        """The digests after the last numbered op."""
        return self._numbered_digests.messages()

    def resume(self, after_seq: int) -> bool:
        """Continues after an op and sends later ones again; returns whether that is possible."""
        if self.in_snapshot or not self._resumable_seq <= after_seq <= self.last_seq:
            return False
        self._resend = deque(sent for sent in self._sent if sent.seq > after_seq)
        return True

    def begin_snapshot(self, kinds: Collection[KindNumber] = ()) -> SnapshotBegin:
        """Queues every object (of some kinds) ahead of all waiting ops."""
        chosen = sorted(set(kinds))
        rest = [] if not chosen else [w for w in self._queue.values() if not _is_of(w, chosen)]
        self._clear_queue()
        if not chosen:
            self._sent.clear()
            if self._buffer.configuration is not None:
                op = configuration_op(self._buffer.configuration)
                self._append(_Waiting(_CONFIGURATION, op=op, in_snapshot=True))
        for held in self._buffer.in_snapshot_order(chosen):
            self._append(_Waiting(held.key, held, in_snapshot=True))
        for data in self._buffer.data.values() if not chosen else ():
            self._append(_Waiting(_data_key(data), op=data_op(data), in_snapshot=True))
        self._snapshot_left = len(self._queue)
        for waiting in rest:
            self._append(waiting)
        self._forget_numbered(chosen)
        self._resend.clear()
        self._snapshot_kinds = chosen
        return SnapshotBegin(first_seq=self.last_seq + 1, kinds=chosen)

    def end_snapshot(self) -> SnapshotEnd | None:
        """The end marker, once, after the last op of the snapshot."""
        if self._snapshot_kinds is None or self._snapshot_left:
            return None
        digests = self._numbered_digests.messages(self._snapshot_kinds)
        self._snapshot_kinds = None
        # The core cannot resume before this number, because it needs the markers.
        self._resumable_seq = self.last_seq
        return SnapshotEnd(seq=self.last_seq, digests=digests)

    def next_batch(self, max_ops: int, batch_bytes: int, max_message_bytes: int) -> Batch | None:
        """The next ops to send, or None. A single larger op is a batch of its own."""
        if self._resend:
            return self._next_resent(max_ops, batch_bytes)
        ops: list[bytes] = []
        first_seq, size = self.last_seq + 1, BATCH_OVERHEAD_BYTES
        while self._queue and len(ops) < max_ops:
            waiting = next(iter(self._queue.values()))
            if self.in_snapshot and not waiting.in_snapshot:
                break
            if ops and size + waiting.size > batch_bytes:
                break
            self._pop_first()
            if waiting.held and waiting.size + BATCH_OVERHEAD_BYTES > max_message_bytes:
                self._oversized.append(waiting.held)
                continue
            ops.append(self._number(waiting))
            size += waiting.size
        return Batch(first_seq, ops) if ops else None

    def pop_oversized(self) -> list[HeldObject]:
        """Objects that exceed the message size, each returned once."""
        oversized, self._oversized = self._oversized, []
        return oversized

    def acknowledge(self, seq: int) -> list[str]:
        """Removes acknowledged ops; returns the ids of the decisions whose outcomes they report."""
        settled: list[str] = []
        while self._sent and self._sent[0].seq <= seq:
            sent = self._sent.popleft()
            if sent.count or sent.hash_sum:
                self._acknowledged_digests.add(sent.kind, sent.count, sent.hash_sum)
            if sent.decision_id:
                settled.append(sent.decision_id)
        self.acknowledged_seq = max(self.acknowledged_seq, min(seq, self.last_seq))
        self._resumable_seq = max(self._resumable_seq, self.acknowledged_seq)
        return settled

    def _next_resent(self, max_ops: int, batch_bytes: int) -> Batch | None:
        ops: list[bytes] = []
        first_seq, size = self._resend[0].seq, BATCH_OVERHEAD_BYTES
        while self._resend and len(ops) < max_ops:
            size += len(self._resend[0].op) + OP_OVERHEAD_BYTES
            if ops and size > batch_bytes:
                break
            ops.append(self._resend.popleft().op)
        return Batch(first_seq, ops) if ops else None

    def _number(self, waiting: _Waiting) -> bytes:
        self.last_seq += 1
        held, key = waiting.held, waiting.key
        op = waiting.op if held is None else upsert_op(*held.key, held.revision, held.body)
        sent = _Sent(self.last_seq, op, waiting.decision_id)
        if key == _CONFIGURATION and self._buffer.configuration is not None:
            self._note_configuration(self._buffer.configuration)
        if key is not None and key[0] != _NO_KIND:
            before = self._numbered.pop(key, None)
            sent.kind = key[0]
            sent.count = (held is not None) - (before is not None)
            sent.hash_sum = (held.digest if held is not None else 0) - (before or 0)
            if held is not None:
                self._numbered[key] = held.digest
            self._numbered_digests.add(sent.kind, sent.count, sent.hash_sum)
        self._sent.append(sent)
        return op

    def _note_configuration(self, configuration: Configuration) -> None:
        self.sent_configurations[self.last_seq] = configuration
        while len(self.sent_configurations) > _MOST_CONFIGURATIONS:
            self.sent_configurations.popitem(last=False)

    def _forget_numbered(self, kinds: list[KindNumber]) -> None:
        """Forgets which objects of these kinds the core has."""
        self._numbered_digests.clear(kinds)
        self._acknowledged_digests.clear(kinds)
        if not kinds:
            self._numbered.clear()
            return
        self._numbered = {key: d for key, d in self._numbered.items() if key[0] not in kinds}
        for sent in self._sent:
            if sent.kind in kinds:
                sent.count = sent.hash_sum = 0

    def _waiting(self, key: ObjectKey) -> _Waiting | None:
        token = self._tokens.get(key)
        return None if token is None else self._queue[token]

    def _replace_op(self, key: ObjectKey, op: bytes) -> None:
        """Replaces the waiting op with this key, or appends the first one."""
        waiting = self._waiting(key)
        if waiting is None:
            self._append(_Waiting(key, op=op))
        else:
            self.waiting_bytes += len(op) - len(waiting.op)
            waiting.op = op

    def _append(self, waiting: _Waiting) -> None:
        self._token += 1
        self._queue[self._token] = waiting
        if waiting.key is not None:
            self._tokens[waiting.key] = self._token
        self.waiting_bytes += waiting.size
        self._urgent_count += not waiting.can_wait
        self._wake()

    def _make_urgent(self, waiting: _Waiting) -> None:
        """Marks a waiting op as one that must be sent soon."""
        self._urgent_count += waiting.can_wait
        waiting.can_wait = False

    def _pop_first(self) -> None:
        token, waiting = self._queue.popitem(last=False)
        self._note_removed(token, waiting)

    def _remove(self, key: ObjectKey) -> None:
        token = self._tokens[key]
        self._note_removed(token, self._queue.pop(token))

    def _note_removed(self, token: int, waiting: _Waiting) -> None:
        self.waiting_bytes -= waiting.size
        self._urgent_count -= not waiting.can_wait
        if waiting.in_snapshot:
            self._snapshot_left -= 1
        if waiting.key is not None and self._tokens.get(waiting.key) == token:
            del self._tokens[waiting.key]

    def _clear_queue(self) -> None:
        self._queue.clear()
        self._tokens.clear()
        self.waiting_bytes = 0
        self._urgent_count = 0


def _is_of(waiting: _Waiting, kinds: list[KindNumber]) -> bool:
    return waiting.key is not None and waiting.key[0] in kinds


def _data_key(data: PluginData) -> ObjectKey:
    return (_NO_KIND, f"data {data.plugin} {data.name}")
