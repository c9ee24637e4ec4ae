"""Who has what, when several schedulers share a cluster."""

import pytest

from pumice.adapters.kubernetes.sharding import HashRing, Shard, shard_from

# Worked out bit by bit from the rule, without a CRC library.
VECTORS = {
    "node-0": "volcano-1",
    "node-1": "volcano-0",
    "node-2": "volcano-0",
    "job-a": "volcano-1",
    # Hashes to a point of volcano-1 itself: only points above it count.
    "7volcano-1": "volcano-2",
    # Hashes above all points, so the ring begins again.
    "n126": "volcano-1",
    "": "volcano-1",
}


@pytest.mark.parametrize(("key", "owner"), VECTORS.items())
def test_keys_go_where_the_rule_says(key: str, owner: str) -> None:
    assert HashRing(["volcano-0", "volcano-1", "volcano-2"]).owner(key) == owner


def test_every_key_has_one_owner() -> None:
    shards = [Shard(f"volcano-{index}", 4) for index in range(4)]
    for number in range(1000):
        assert sum(share.has(f"key-{number}") for share in shards) == 1


def test_the_environment_says_whether_there_are_several() -> None:
    assert shard_from({}) is None
    assert shard_from({"MULTI_SCHEDULER_ENABLE": "false"}) is None
    on = {"MULTI_SCHEDULER_ENABLE": "true", "SCHEDULER_POD_NAME": "volcano-1"}
    share = shard_from({**on, "SCHEDULER_NUM": "2"})
    assert share is not None
    assert share.name == "volcano-1"
    with pytest.raises(ValueError, match="SCHEDULER_NUM is 1"):
        shard_from(on)
    with pytest.raises(ValueError, match="end in a number"):
        shard_from({**on, "SCHEDULER_POD_NAME": "volcano"})
    with pytest.raises(ValueError, match="number of at least 1"):
        shard_from({**on, "SCHEDULER_NUM": "0"})
