"""Recordings of clusters with volumes: what was promised to claims is in every checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.core.decisions import Bind
from pumice.recordings import Recording, RecordingWriter
from pumice.server.local import compare_recording
from pumice.testing import assert_replay_identical
from pumice.v1.recording_pb2 import RecordingEntry
from tests.replay.volume_walks import VolumeWalk

SEEDS = [1, 2, 3]


def checkpoints(path: Path) -> list[RecordingEntry]:
    with Recording(path) as held:
        return [entry for entry in held.entries() if entry.HasField("checkpoint")]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recording_from_any_session_on_replays_identical(tmp_path: Path, seed: int) -> None:
    walk = VolumeWalk(seed)
    walk.record(tmp_path / "whole.pumice")

    def begin(number: int) -> None:
        if number % 8 == 0:
            walk.record(tmp_path / f"from-{number:03d}.pumice")

    walk.run(48, begin)
    walk.close()
    given = [c for r in walk.results for d in r.decisions if isinstance(d, Bind) for c in d.volumes]
    assert any(choice.volume_name for choice in given)
    assert any(not choice.volume_name for choice in given)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 7
    for path in paths:
        if path.stem != "from-048":
            assert assert_replay_identical(path, statuses=True).sessions >= 8
    assert any(e.checkpoint.assumed_volumes for path in paths for e in checkpoints(path))
    assert any(e.checkpoint.assumed_claims for path in paths for e in checkpoints(path))


Spoil = Callable[[RecordingEntry], bool]


def _forget_volumes(entry: RecordingEntry) -> bool:
    found = bool(entry.checkpoint.assumed_volumes)
    entry.checkpoint.ClearField("assumed_volumes")
    return found


def _forget_objects(entry: RecordingEntry) -> bool:
    kept = [u for u in entry.checkpoint.objects if not u.object.HasField("persistent_volume")]
    found = len(kept) < len(entry.checkpoint.objects)
    del entry.checkpoint.objects[:]
    entry.checkpoint.objects.extend(kept)
    return found


@pytest.mark.parametrize("spoil", [_forget_volumes, _forget_objects])
def test_a_checkpoint_without_them_would_be_noticed(tmp_path: Path, spoil: Spoil) -> None:
    differing = 0
    for seed in range(1, 9):
        walk = VolumeWalk(seed)
        walk.run(10)
        walk.record(tmp_path / f"{seed}.pumice")
        walk.run(15)
        walk.close()
        spoilt = tmp_path / f"{seed}-spoilt.pumice"
        with Recording(tmp_path / f"{seed}.pumice") as held, RecordingWriter(spoilt) as out:
            for entry in held.entries():
                if entry.HasField("checkpoint"):
                    spoil(entry)
                out.write(entry)
        with Recording(spoilt) as held:
            differing += not compare_recording(held).identical
    assert differing
