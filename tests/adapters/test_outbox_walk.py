"""Whatever happens in whatever order, the core ends up with what the world holds."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.encoding import batch_request
from pumice.adapters.runtime.objects import KindNumber, ObjectKey
from pumice.adapters.runtime.outbox import Outbox
from pumice.v1.cluster_service_pb2 import ConnectRequest
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, ClusterObject
from tests.adapters.core_model import CoreModel
from tests.adapters.fake_world import node, pod

NAMES = st.sampled_from(["a", "b", "c"])


class Stream(RuleBasedStateMachine):
    """A world that changes, an outbox, and a core behind a stream that breaks now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.world: dict[ObjectKey, ClusterObject] = {}
        self.uids: dict[str, int] = {}
        self.buffer = ResumeBuffer()
        self.outbox = Outbox(self.buffer)
        self.core = CoreModel()
        self.sent: list[ConnectRequest] = []
        self._snapshot(())

    @rule(name=NAMES, place=st.sampled_from(["", "n1", "n2"]))
    def pod_changes(self, name: str, place: str) -> None:
        self._put(pod(name, uid=f"{name}{self.uids.get(name, 0)}", node=place))

    @rule(name=NAMES)
    def pod_goes(self, name: str) -> None:
        number = self.uids.get(name, 0)
        self._gone(KIND_POD, f"{name}{number}")

    @rule(name=NAMES)
    def pod_is_made_anew(self, name: str) -> None:
        self.pod_goes(name)
        self.uids[name] = self.uids.get(name, 0) + 1
        self.pod_changes(name, "")

    @rule(name=NAMES)
    def node_changes(self, name: str) -> None:
        self._put(node(name))

    @rule(name=NAMES)
    def node_goes(self, name: str) -> None:
        self._gone(KIND_NODE, f"uid-{name}")

    @rule(max_ops=st.integers(1, 5))
    def adapter_sends(self, max_ops: int) -> None:
        batch = self.outbox.next_batch(max_ops, 300, 1 << 22)
        if batch is not None:
            self._post(ConnectRequest.FromString(batch_request(batch.first_seq, batch.ops)))
        end = self.outbox.end_snapshot()
        if end is not None:
            self._post(ConnectRequest(snapshot_end=end))

    @rule(messages=st.integers(1, 4))
    def core_reads(self, messages: int) -> None:
        for request in self.sent[:messages]:
            self.core.take(request)
        del self.sent[:messages]

    @precondition(lambda self: not self.core.in_snapshot)
    @rule()
    def core_acknowledges(self) -> None:
        self.outbox.acknowledge(self.core.applied_seq)
        if not self.outbox.in_snapshot and self.core.applied_seq == self.outbox.last_seq:
            assert self.outbox.acknowledged_digests() == self.core.computed_digests()

    @rule()
    def stream_breaks(self) -> None:
        self.sent.clear()
        self.core.stream_ended()
        if self.outbox.in_snapshot or not self.outbox.resume(self.core.applied_seq):
            self.outbox.reset()
            self._snapshot(())

    @rule()
    def core_restarts(self) -> None:
        self.sent.clear()
        self.core = CoreModel()
        if self.outbox.in_snapshot:
            self.outbox.reset()
        self._snapshot(())

    @precondition(lambda self: not self.outbox.in_snapshot and not self.outbox.is_resending)
    @rule(kind=st.sampled_from([KIND_POD, KIND_NODE]))
    def core_asks_for_a_kind(self, kind: KindNumber) -> None:
        self._snapshot((kind,))

    @invariant()
    def sizes_add_up(self) -> None:
        assert self.outbox.waiting_bytes >= 0
        if not self.outbox.has_work:
            assert self.outbox.waiting_bytes == 0

    def teardown(self) -> None:
        while self.outbox.has_work:
            self.adapter_sends(5)
        self.core_reads(len(self.sent))
        held = {key: seen for key, (_, seen) in self.core.objects.items()}
        assert held == self.world
        assert self.outbox.digests() == self.core.computed_digests()
        assert self.core.applied_seq == self.outbox.last_seq

    def _put(self, thing: ClusterObject) -> None:
        held = self.buffer.keep(thing)
        if held is not None:
            self.world[held.key] = thing
            self.outbox.upsert(held)

    def _gone(self, kind: KindNumber, uid: str) -> None:
        self.world.pop((kind, uid), None)
        self.buffer.drop(kind, uid)
        self.outbox.tombstone(kind, uid)

    def _snapshot(self, kinds: tuple[KindNumber, ...]) -> None:
        self._post(ConnectRequest(snapshot_begin=self.outbox.begin_snapshot(kinds)))

    def _post(self, request: ConnectRequest) -> None:
        self.sent.append(request)


Stream.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestStream = Stream.TestCase
