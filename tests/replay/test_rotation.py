"""A file may begin anywhere: each replays alone, whatever the core remembered at that moment."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from pumice.recordings import Recording
from pumice.testing import assert_replay_identical, recordings_in
from tests.replay.troubled_walks import TroubledWalk
from tests.replay.volume_walks import VolumeWalk
from tests.replay.walks import Walk


def remembered(path: Path) -> Counter[str]:
    """What there is of each sort of memory in a file's checkpoints."""
    found: Counter[str] = Counter()
    with Recording(path) as held:
        for entry in held.entries():
            for field, value in entry.checkpoint.ListFields():
                if field.is_repeated:
                    found[field.name] += len(value)
            found["expired"] += sum(assumed.expired for assumed in entry.checkpoint.assumed)
            found["snapshots"] += entry.HasField("snapshot_end")
            found["reconnections"] += entry.connection.HasField("hello")
    return found


def rotated(walk: Walk, folder: Path, seed: int, sessions: int) -> None:
    """Another file after every few sessions, beside one that holds all of them."""
    chance = random.Random(seed)
    walk.record(folder / "000.pumice")

    def between(number: int) -> None:
        if chance.random() < 0.3:
            walk.record(folder / f"{number:03d}.pumice")

    walk.run(sessions, between)
    walk.close()


def check_each(folder: Path, sessions: int) -> None:
    for path in recordings_in(folder):
        left = sessions - int(path.stem)
        if left:
            assert assert_replay_identical(path, statuses=True).sessions == left


@pytest.mark.parametrize("seed", range(6))
def test_wherever_a_file_begins_it_replays_alone(tmp_path: Path, seed: int) -> None:
    walk = VolumeWalk(seed) if seed == 5 else TroubledWalk(seed)
    rotated(walk, tmp_path, seed, 35)
    check_each(tmp_path, 35)


def test_all_sorts_of_memory_were_tried(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        rotated(TroubledWalk(seed), folder, seed, 35)
        for path in recordings_in(folder):
            found += remembered(path)
    wanted = ("assumed", "expired", "cool_downs", "broken_gangs", "rejected", "jobs", "pods")
    assert [name for name in (*wanted, "snapshots", "reconnections") if not found[name]] == []
