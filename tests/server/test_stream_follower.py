"""Replicas and replays apply a stream as the core does that serves it."""

import pytest

from pumice.core.errors import InputError
from pumice.server.plugins import installed_registry
from pumice.server.state import ClusterState
from pumice.server.stream_follower import StreamFollower
from pumice.server.whatif.replica import Replica
from pumice.server.wire import write_upsert
from pumice.v1 import configuration_pb2, delta_pb2, object_pb2
from tests.server.running import node

NODES = frozenset({object_pb2.KIND_NODE})


def empty_state() -> ClusterState:
    state = ClusterState(installed_registry())
    state.configure(configuration_pb2.Configuration())
    return state


def batch(seq: int, *names: str) -> delta_pb2.DeltaBatch:
    ops = [delta_pb2.Op(upsert=write_upsert(node(name), 1)) for name in names]
    return delta_pb2.DeltaBatch(first_seq=seq, ops=ops)


def names(state: ClusterState | None) -> list[str]:
    assert state is not None
    return [item.name for item in state.engine.cache.nodes]


def test_a_resync_is_applied_as_a_whole_and_deletes_what_it_lacks() -> None:
    stream = StreamFollower(empty_state())
    stream.apply_batch(batch(1, "a", "b"), 0)
    stream.begin_snapshot(3, NODES)
    stream.apply_batch(batch(3, "b", "c"), 0)
    assert names(stream.state) == ["a", "b"]
    stream.end_snapshot(4, 0)
    assert names(stream.state) == ["b", "c"]
    assert stream.state.applied_seq == 4


def test_a_complete_snapshot_replaces_the_state() -> None:
    stream = StreamFollower(empty_state())
    stream.apply_batch(batch(1, "a"), 0)
    stream.begin_snapshot(2, ())
    stream.apply_batch(batch(2, "b"), 0)
    assert names(stream.state) == ["b"]
    stream.end_snapshot(2, 0)
    with pytest.raises(InputError, match="ends at op 2 without a begin"):
        stream.end_snapshot(2, 0)


def test_a_replica_applies_changes_after_a_reconnect_that_interrupted_a_resync() -> None:
    replica = Replica()
    replica.follow(empty_state())
    replica.on_snapshot_begin(1, NODES)
    replica.on_batch(batch(1, "a").SerializeToString(), 0)
    replica.on_connection((), frozenset())
    replica.on_batch(batch(1, "b").SerializeToString(), 0)
    assert names(replica.state) == ["b"]
