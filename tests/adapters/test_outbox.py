"""The outbox: numbers, coalescing, snapshots and what is sent again."""

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.encoding import batch_request
from pumice.adapters.runtime.outbox import Outbox
from pumice.v1.cluster_service_pb2 import ConnectRequest
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import OUTCOME_CODE_APPLIED, OUTCOME_CODE_RETRYING, Outcome
from pumice.v1.delta_pb2 import Op
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, ClusterObject
from tests.adapters.core_model import CoreModel
from tests.adapters.fake_world import group, node, pod


class Side:
    """An outbox and, at the other end, a model of the core."""

    def __init__(self) -> None:
        self.buffer = ResumeBuffer()
        self.outbox = Outbox(self.buffer)
        self.model = CoreModel()

    def put(self, thing: ClusterObject) -> None:
        held = self.buffer.keep(thing)
        if held is not None:
            self.outbox.upsert(held)

    def gone(self, kind: int, uid: str) -> None:
        self.buffer.drop(kind, uid)  # type: ignore[arg-type]
        self.outbox.tombstone(kind, uid)  # type: ignore[arg-type]

    def send(self, max_ops: int = 1000, batch_bytes: int = 1 << 20) -> list[str]:
        """Sends one batch; the kinds of its ops."""
        batch = self.outbox.next_batch(max_ops, batch_bytes, 1 << 22)
        if batch is None:
            return []
        request = ConnectRequest.FromString(batch_request(batch.first_seq, batch.ops))
        self.model.take(request)
        return [str(op.WhichOneof("op")) for op in request.delta_batch.ops]

    def snapshot(self, *kinds: int) -> None:
        begin = self.outbox.begin_snapshot(kinds)  # type: ignore[arg-type]
        self.model.take(ConnectRequest(snapshot_begin=begin))
        while self.outbox.in_snapshot:
            self.send()
            end = self.outbox.end_snapshot()
            if end is not None:
                self.model.take(ConnectRequest(snapshot_end=end))

    def names(self) -> set[str]:
        return {uid for _, uid in self.model.objects}


def started() -> Side:
    side = Side()
    side.snapshot()
    return side


def test_ops_that_wait_for_one_object_become_one() -> None:
    side = started()
    side.put(pod("a"))
    side.put(node("n1"))
    side.put(pod("a", node="n1"))
    assert side.send() == ["upsert", "upsert"]
    assert side.model.objects[KIND_POD, "uid-a"][1].pod.node_name == "n1"
    assert side.outbox.coalesced == 1


def test_an_unchanged_object_is_not_sent_again() -> None:
    side = started()
    side.put(pod("a"))
    side.send()
    side.put(pod("a"))
    assert side.send() == []


def test_a_tombstone_comes_before_the_new_uid_of_the_same_name() -> None:
    side = started()
    side.put(pod("a", uid="old"))
    side.send()
    side.put(pod("a", uid="old", node="n1"))
    side.gone(KIND_POD, "old")
    side.put(pod("a", uid="new"))
    side.put(pod("a", uid="new", node="n2"))
    assert side.send() == ["tombstone", "upsert"]
    assert side.names() == {"new"}


def test_a_waiting_tombstone_is_a_wall_for_the_same_uid() -> None:
    side = started()
    side.put(pod("a"))
    side.send()
    side.gone(KIND_POD, "uid-a")
    side.put(pod("a", node="n1"))
    assert side.send() == ["tombstone", "upsert"]


def test_what_came_and_went_unsent_is_never_told() -> None:
    side = started()
    side.put(pod("a"))
    side.gone(KIND_POD, "uid-a")
    assert side.send() == []
    assert not side.outbox.has_work
    assert side.outbox.waiting_bytes == 0


def test_a_core_that_asks_about_an_unknown_object_gets_a_tombstone() -> None:
    side = started()
    side.outbox.tombstone(KIND_POD, "never-seen", asked=True)
    assert side.send() == ["tombstone"]


def test_a_snapshot_holds_everything_in_an_order_in_which_references_resolve() -> None:
    side = Side()
    side.buffer.configuration = Configuration(default_queue="q")
    side.put(pod("a"))
    side.put(group())
    side.put(node("n1"))
    side.outbox.begin_snapshot()
    batch = side.outbox.next_batch(100, 1 << 20, 1 << 22)
    assert batch is not None
    ops = [Op.FromString(op) for op in batch.ops]
    assert ops[0].HasField("configuration")
    kinds = [op.upsert.object.WhichOneof("object") for op in ops[1:]]
    assert kinds == ["node", "pod_group", "pod"]


def test_changes_during_a_snapshot_are_part_of_it_or_follow_it() -> None:
    side = Side()
    for name in "abc":
        side.put(pod(name))
    side.model.take(ConnectRequest(snapshot_begin=side.outbox.begin_snapshot()))
    assert side.send(max_ops=1) == ["upsert"]
    side.put(pod("a", node="n1"))  # sent already
    side.put(pod("b", node="n1"))  # not yet
    side.gone(KIND_POD, "uid-c")  # not yet
    side.put(pod("d"))
    assert side.send() == ["upsert"]
    end = side.outbox.end_snapshot()
    assert end is not None
    side.model.take(ConnectRequest(snapshot_end=end))
    assert side.names() == {"uid-a", "uid-b"}
    assert side.send() == ["upsert", "upsert"]
    assert side.names() == {"uid-a", "uid-b", "uid-d"}


def test_a_snapshot_of_some_kinds_leaves_the_others_alone() -> None:
    side = started()
    side.put(node("n1"))
    side.put(pod("a"))
    side.send()
    side.model.objects.pop((KIND_NODE, "uid-n1"))
    side.put(pod("b"))
    side.snapshot(KIND_NODE)
    assert side.names() == {"uid-n1", "uid-a"}
    side.send()
    assert side.names() == {"uid-n1", "uid-a", "uid-b"}
    assert side.outbox.digests() == side.model.computed_digests()


def test_a_snapshot_of_a_kind_that_is_empty_has_two_markers_and_no_op() -> None:
    side = started()
    begin = side.outbox.begin_snapshot([KIND_NODE])
    end = side.outbox.end_snapshot()
    assert end is not None
    assert end.seq == begin.first_seq - 1
    assert [(digest.kind, digest.count) for digest in end.digests] == [(KIND_NODE, 0)]


def test_what_was_not_acknowledged_is_sent_again_under_its_number() -> None:
    side = started()
    for name in "abc":
        side.put(pod(name))
        side.send()
    side.outbox.acknowledge(1)
    side.put(pod("d"))
    assert side.outbox.resume(2)
    assert side.outbox.next_seq == 3
    batch = side.outbox.next_batch(100, 1 << 20, 1 << 22)
    assert batch is not None
    assert (batch.first_seq, len(batch.ops)) == (3, 1)
    assert side.send() == ["upsert"]
    assert side.names() == {"uid-a", "uid-b", "uid-c", "uid-d"}


def test_a_stream_is_not_resumed_where_ops_are_missing_or_were_never_sent() -> None:
    side = Side()
    assert not side.outbox.resume(0), "before the first snapshot"
    side.snapshot()
    side.put(pod("a"))
    side.send()
    side.put(pod("b"))
    side.send()
    side.outbox.acknowledge(1)
    assert not side.outbox.resume(0), "below what was acknowledged"
    assert not side.outbox.resume(3), "above what was sent"
    assert side.outbox.resume(1)


def test_a_core_that_missed_the_end_of_a_snapshot_cannot_resume_inside_it() -> None:
    side = started()
    side.put(pod("a"))
    side.send()
    side.outbox.acknowledge(1)
    side.snapshot(KIND_POD)
    assert not side.outbox.resume(1)
    assert side.outbox.resume(2)


def test_numbers_go_on_over_a_snapshot_and_begin_anew_with_an_incarnation() -> None:
    side = started()
    side.put(pod("a"))
    side.send()
    assert side.outbox.begin_snapshot().first_seq == 2
    side.outbox.reset()
    assert side.outbox.begin_snapshot().first_seq == 1


def test_digests_of_hello_are_those_of_what_was_acknowledged() -> None:
    side = started()
    side.put(pod("a"))
    side.send()
    held = side.model.computed_digests()
    side.outbox.acknowledge(1)
    side.put(pod("a", node="n1"))
    side.put(pod("b"))
    side.send()
    assert side.outbox.acknowledged_digests() == held
    assert side.outbox.digests() == side.model.computed_digests()
    side.outbox.acknowledge(3)
    assert side.outbox.acknowledged_digests() == side.model.computed_digests()


def test_outcomes_settle_when_they_are_acknowledged_unless_they_are_not_final() -> None:
    side = started()
    side.outbox.report(Outcome(decision_id="d1", code=OUTCOME_CODE_RETRYING))
    side.outbox.report(Outcome(decision_id="d1", code=OUTCOME_CODE_APPLIED))
    assert side.send() == ["outcome", "outcome"]
    assert side.outbox.acknowledge(1) == []
    assert side.outbox.acknowledge(2) == ["d1"]


def test_a_batch_keeps_to_its_size_and_a_larger_op_is_a_batch_of_its_own() -> None:
    side = started()
    for name in "abc":
        side.put(pod(name))
    side.put(pod("d" * 500))
    side.put(pod("e"))
    assert [len(side.send(batch_bytes=200)) for _ in range(4)] == [3, 1, 1, 0]


def test_an_object_over_the_message_limit_is_left_out_and_named() -> None:
    side = started()
    side.put(pod("x" * 2000))
    side.put(pod("b"))
    batch = side.outbox.next_batch(100, 1000, 1000)
    assert batch is not None
    assert len(batch.ops) == 1
    assert [held.identity.name for held in side.outbox.pop_oversized()] == ["x" * 2000]
    assert side.outbox.pop_oversized() == []


def test_the_newest_configuration_waits_alone() -> None:
    side = started()
    for name in ("q1", "q2"):
        side.buffer.configuration = Configuration(default_queue=name)
        side.outbox.configure()
    assert side.send() == ["configuration"]
    assert side.model.configurations[0].default_queue == "q2"


def has_urgent_work(side: Side) -> bool:
    return side.outbox.has_urgent_work


def test_only_what_a_core_does_not_assume_yet_is_news() -> None:
    side = started()
    side.outbox.report(Outcome(decision_id="d1", code=OUTCOME_CODE_APPLIED))
    bound = side.buffer.keep(pod("p1", node="n1"))
    assert bound is not None
    side.outbox.upsert(bound, can_wait=True)
    assert side.outbox.has_work
    assert not has_urgent_work(side)
    side.outbox.report(Outcome(decision_id="d2", code=OUTCOME_CODE_RETRYING))
    assert has_urgent_work(side)
    while side.outbox.next_batch(1, 1 << 20, 1 << 20) is not None:
        pass
    assert not has_urgent_work(side)


def test_an_expected_pod_that_changes_or_goes_while_it_waits_is_news() -> None:
    for changed in (True, False):
        side = started()
        first = side.buffer.keep(pod("p1"))
        assert first is not None
        side.outbox.upsert(first)
        assert side.outbox.next_batch(9, 1 << 20, 1 << 20) is not None
        bound = side.buffer.keep(pod("p1", node="n1"))
        assert bound is not None
        side.outbox.upsert(bound, can_wait=True)
        assert not has_urgent_work(side)
        if changed:
            later = side.buffer.keep(pod("p1", node="n2"))
            assert later is not None
            side.outbox.upsert(later)
        else:
            side.outbox.tombstone(KIND_POD, bound.identity.uid)
        assert has_urgent_work(side)
        assert side.outbox.next_batch(9, 1 << 20, 1 << 20) is not None
        assert not has_urgent_work(side)
