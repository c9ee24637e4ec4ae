"""Framing by hand gives what the protocol's own encoder gives, and digests are recomputed right."""

import hashlib

from pumice.adapters.runtime.digests import DigestTable, digests_of, hash64
from pumice.adapters.runtime.encoding import (
    batch_request,
    configuration_op,
    object_body,
    outcome_op,
    tombstone_op,
    upsert_op,
)
from pumice.v1.cluster_service_pb2 import ConnectRequest
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Outcome
from pumice.v1.delta_pb2 import DeltaBatch, Op, Upsert
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, ObjectRef
from tests.adapters.fake_world import node, pod


def test_a_batch_of_encoded_ops_reads_as_it_was_meant() -> None:
    long = pod("x" * 20_000)
    ops = [
        Op(upsert=Upsert(kind=KIND_NODE, uid="n1", revision=7, object=node("n1"))),
        Op(upsert=Upsert(kind=KIND_POD, uid="x", revision=300, object=long)),
        Op(tombstone=ObjectRef(kind=KIND_POD, uid="u")),
        Op(outcome=Outcome(decision_id="d")),
        Op(configuration=Configuration(default_queue="q")),
    ]
    encoded = [
        upsert_op(KIND_NODE, "n1", 7, object_body(node("n1"))),
        upsert_op(KIND_POD, "x", 300, object_body(long)),
        tombstone_op(KIND_POD, "u"),
        outcome_op(Outcome(decision_id="d")),
        configuration_op(Configuration(default_queue="q")),
    ]
    meant = ConnectRequest(delta_batch=DeltaBatch(first_seq=1 << 40, ops=ops))
    assert ConnectRequest.FromString(batch_request(1 << 40, encoded)) == meant


def test_hash64_is_blake2b_over_uid_zero_and_revision() -> None:
    digest = hashlib.blake2b("ü\0".encode() + b"12", digest_size=8).digest()
    assert hash64("ü", 12) == int.from_bytes(digest, "big")


def test_a_digest_kept_step_by_step_equals_one_made_from_nothing() -> None:
    table = DigestTable()
    for revision in range(1, 50):
        table.add(KIND_POD, 1, hash64(f"u{revision}", revision))
    for revision in range(1, 20):
        table.add(KIND_POD, -1, -hash64(f"u{revision}", revision))
    table.add(KIND_NODE, 1, hash64("n", 1))
    held = [(KIND_POD, f"u{revision}", revision) for revision in range(20, 50)]
    assert table.messages() == digests_of([*held, (KIND_NODE, "n", 1)])


def test_an_empty_kind_is_named_only_when_asked_for() -> None:
    table = DigestTable()
    assert table.messages() == []
    assert [(d.kind, d.count, d.sum) for d in table.messages([KIND_POD])] == [(KIND_POD, 0, 0)]
