"""Replay is identical wherever it runs, and says so when something is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.recordings import Recording, RecordingError, RecordingWriter
from pumice.recordings.redaction import Collector, redact, rewrite
from pumice.server.local import compare_recording
from pumice.server.plugins import installed_registry
from pumice.server.replaying.playback import Playback
from pumice.server.wire.groups import PHASE_NUMBERS
from pumice.testing import RecordingWarning, assert_replay_identical, recordings_in
from pumice.v1.cluster_service_pb2 import SnapshotEnd
from pumice.v1.recording_pb2 import RecordingEntry
from tests.replay import pythons
from tests.replay.troubled_walks import CONFS, TroubledWalk
from tests.replay.walks import EVICTING, OLDER, PACKING, Walk, recorded
from tests.server.running import configuration

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = recordings_in(ROOT / "tests" / "recordings")
REPLAY = "import sys; from pumice.cli.main import main; main()"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_recordings_are_decided_again(path: Path) -> None:
    found = assert_replay_identical(path)
    # Disks are few, so few pods find one.
    assert found.decisions > (30 if path.stem == "volumes" else 100)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("conf", [EVICTING, PACKING], ids=["evicting", "packing"])
def test_random_walks_are_decided_again(tmp_path: Path, seed: int, conf: str) -> None:
    path = tmp_path / "walk.pumice"
    walk = recorded(path, seed, sessions=40, conf=conf)
    found = assert_replay_identical(path, statuses=True)
    assert found.sessions == 40
    assert found.decisions == sum(len(result.decisions) for result in walk.results)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("compat", [[], ["kube-batch"]], ids=["volcano", "kube-batch"])
def test_a_checkpoint_at_any_session_replays_like_the_beginning(
    tmp_path: Path, seed: int, compat: list[str]
) -> None:
    conf = OLDER if compat else EVICTING
    walk = Walk(seed, conf, compat=compat, scheduler_names=["volcano"])
    walk.record(tmp_path / "whole.pumice")

    def between(session: int) -> None:
        if session in (3 + seed, 11 + 2 * seed):
            walk.record(tmp_path / f"from-{session}.pumice")

    walk.run(40, between)
    walk.close()
    for path in recordings_in(tmp_path):
        found = assert_replay_identical(path, statuses=True)
        assert found.last_session == 40
    assert len(recordings_in(tmp_path)) == 3
    assert any(result.decisions for result in walk.results[-10:])


# Another process.


def replayed(python: str, path: Path, **environment: str) -> str:
    roots = os.pathsep.join(str(ROOT / part) for part in ("proto", "server", "adapters", "clients"))
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONHASHSEED", "VIRTUAL_ENV")}
    done = subprocess.run(
        [python, "-c", REPLAY, "replay", str(path), "--json"],
        env={**inherited, "PYTHONPATH": roots, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(600)  # The first time it installs what the other Python needs.
@pytest.mark.parametrize("version", sorted(pythons.others()))
def test_replay_is_identical_under_every_python(version: str) -> None:
    try:
        python = pythons.environment_of(version, pythons.others()[version])
    except pythons.NotMadeError as problem:
        pytest.skip(f"no environment for Python {version}: {problem}")
    there, here = (
        json.loads(replayed(which, GOLDEN[0])) for which in (str(python), sys.executable)
    )
    # Pumice is not installed there, so that it does not know its version.
    del there["warnings"], here["warnings"]
    assert there == here
    assert there["identical"]


def test_replay_is_identical_under_other_hash_seeds_and_without_simd() -> None:
    import numpy as np

    config = np.show_config(mode="dicts")
    found = config["SIMD Extensions"].get("found", [])
    outputs = {
        replayed(sys.executable, GOLDEN[0], PYTHONHASHSEED="1"),
        replayed(sys.executable, GOLDEN[0], PYTHONHASHSEED="4242"),
        replayed(sys.executable, GOLDEN[0], NPY_DISABLE_CPU_FEATURES=" ".join(found)),
    }
    assert len(outputs) == 1


# Negative controls.


def altered(source: Path, target: Path, change: Callable[[RecordingEntry], None]) -> Path:
    with Recording(source) as held, RecordingWriter(target) as out:
        for entry in held.entries():
            change(entry)
            out.write(entry)
    return target


@pytest.fixture
def walk_file(tmp_path: Path) -> Path:
    recorded(tmp_path / "walk.pumice", seed=5, sessions=40)
    return tmp_path / "walk.pumice"


def test_one_changed_decision_is_named(walk_file: Path, tmp_path: Path) -> None:
    changed: list[tuple[int, str]] = []

    def change(entry: RecordingEntry) -> None:
        batch = entry.decision_batch
        for decision in batch.decisions:
            if not changed and batch.session > 15 and decision.bind.node == "n1":
                decision.bind.node = "n2"
                changed.append((batch.session, f"team/{decision.bind.name}"))

    path = altered(walk_file, tmp_path / "changed.pumice", change)
    with Recording(path) as held:
        found = compare_recording(held)
    first = found.differences[0]
    assert (first.session, first.subject) == changed[0]
    assert (first.recorded, first.replayed) == ("bind to n2", "bind to n1")
    with pytest.raises(
        AssertionError, match=rf"session {first.session}: {first.subject}: recorded"
    ):
        assert_replay_identical(path)


def test_one_changed_delta_is_found_in_the_session_after_it(
    walk_file: Path, tmp_path: Path
) -> None:
    changed: list[tuple[int, str]] = []

    def change(entry: RecordingEntry) -> None:
        for op in entry.delta_batch.ops:
            held = op.upsert.object.pod
            if not changed and held.name.startswith("job-012") and held.phase == 1:
                held.spec.node_selector["nowhere"] = "found"
                changed.append((0, f"{held.namespace}/{held.name}"))
        for decision in entry.decision_batch.decisions:
            if changed and not changed[0][0] and f"team/{decision.bind.name}" == changed[0][1]:
                changed[0] = (entry.decision_batch.session, changed[0][1])

    path = altered(walk_file, tmp_path / "changed.pumice", change)
    with Recording(path) as held:
        found = compare_recording(held, statuses=False)
    subjects = {(one.session, one.subject) for one in found.differences}
    assert changed[0] in subjects
    assert found.differences[0].session == changed[0][0]


def test_a_changed_weight_differs_from_some_session_on(walk_file: Path, tmp_path: Path) -> None:
    def change(entry: RecordingEntry) -> None:
        for op in entry.delta_batch.ops:
            if op.upsert.object.queue.name == "b":
                op.upsert.object.queue.weight = 1
                op.upsert.object.queue.capability.amounts["cpu"] = 2000

    path = altered(walk_file, tmp_path / "changed.pumice", change)
    with Recording(path) as held:
        found = compare_recording(held, statuses=False)
    assert not found.identical
    assert found.differences[0].subject.startswith("team/job-")
    # Each session runs on the recorded state: one difference does not make all others.
    assert found.differing_sessions < found.sessions


def test_another_configuration_is_compared_on_the_recorded_state(walk_file: Path) -> None:
    with Recording(walk_file) as held:
        found = compare_recording(held, scheduler_conf=PACKING, statuses=False)
    assert 0 < found.differing_sessions < found.sessions


def test_a_configuration_that_cannot_be_used_is_told(walk_file: Path) -> None:
    with Recording(walk_file) as held:
        found = compare_recording(held, scheduler_conf="actions: fly", allow_refused=True)
        with pytest.raises(RecordingError, match=r"refused here: line 1: .*'fly'"):
            compare_recording(held, scheduler_conf="actions: fly")
    assert "fly" in found.refused_configurations[0]


def test_only_what_is_decided_otherwise_is_told(walk_file: Path, tmp_path: Path) -> None:
    """The ids of later decisions count on, and differ where one is missing: nobody minds."""
    dropped: list[tuple[int, str]] = []

    def change(entry: RecordingEntry) -> None:
        batch = entry.decision_batch
        if not dropped and batch.session > 10 and len(batch.decisions) > 2:
            dropped.append((batch.session, f"team/{batch.decisions[0].bind.name}"))
            del batch.decisions[0]

    path = altered(walk_file, tmp_path / "changed.pumice", change)
    with Recording(path) as held:
        found = compare_recording(held, statuses=False)
    here = [one for one in found.differences if one.session == dropped[0][0]]
    assert [(one.session, one.subject) for one in here] == dropped
    assert here[0].recorded == "nothing"


def test_jobs_are_let_in_as_recorded_while_another_configuration_is_compared(
    walk_file: Path,
) -> None:
    """Who lets everybody in must not find them let in a session later."""
    playback = Playback(installed_registry(), OLDER)
    with Recording(walk_file) as held:
        for played in playback.sessions(held.entries()):
            phases = {
                change.pod_group.uid: change.pod_group.status.phase
                for change in played.recorded.statuses
                if change.HasField("pod_group")
            }
            groups = {group.uid: group for group in playback.state.engine.cache.groups}
            now = {uid: PHASE_NUMBERS[groups[uid].status.phase] for uid in phases}
            assert now == phases


def test_entries_that_make_no_sense_are_refused_with_the_place(
    walk_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "changed.pumice"
    with Recording(walk_file) as held, RecordingWriter(path) as out:
        for entry in held.entries():
            out.write(entry)
            if entry.session_end.session == 7:
                out.write(RecordingEntry(snapshot_end=SnapshotEnd(seq=3)))
    with (
        Recording(path) as held,
        pytest.raises(RecordingError, match=r"changed\.pumice: .*after session 7: a snapshot ends"),
    ):
        compare_recording(held)


def test_a_core_that_crashed_in_a_checkpoint_or_session_is_gone_on_with(tmp_path: Path) -> None:
    path, whole = tmp_path / "one.pumice", tmp_path / "whole.pumice"
    recorded(whole, seed=5, sessions=12)
    with Recording(whole) as held:
        entries = list(held.entries())
    last_tick = max(i for i, entry in enumerate(entries) if entry.HasField("tick"))
    half = RecordingEntry()
    half.CopyFrom(entries[1])
    half.checkpoint.part_count = 9
    for part in (entries[: last_tick + 1], [entries[0], half], entries):
        with RecordingWriter(path) as out:
            for entry in part:
                out.write(entry)
    found = assert_replay_identical(path, statuses=True)
    assert found.runs == [(1, 11), (1, 12)]


# Damage, and other names.


def test_a_torn_recording_is_replayed_as_far_as_it_is_whole(
    walk_file: Path, tmp_path: Path
) -> None:
    data = walk_file.read_bytes()
    with Recording(walk_file) as held:
        entries = list(held.entries())
    torn = tmp_path / "torn.pumice"
    with RecordingWriter(torn) as out:
        for entry in entries:
            out.write(entry)
            if entry.HasField("session_end"):
                out.flush()
    whole = torn.read_bytes()
    assert len(whole) > len(data)
    torn.write_bytes(whole[: len(whole) * 2 // 3])
    with Recording(torn) as held:
        found = compare_recording(held)
    assert found.identical
    assert 10 < found.sessions < 40
    assert "is truncated" in found.ending
    with pytest.raises(AssertionError, match="is truncated"):
        assert_replay_identical(torn, strict=True)
    with pytest.warns(RecordingWarning, match="is truncated"):
        assert_replay_identical(torn)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_redacted_recording_replays_identical_and_keeps_no_name(
    path: Path, tmp_path: Path
) -> None:
    target = tmp_path / "redacted.pumice"
    names: set[str] = set()
    with Recording(path) as held, RecordingWriter(target) as out:
        for entry in held.entries():
            for op in entry.delta_batch.ops:
                names |= {op.upsert.object.pod.name, op.upsert.object.node.name}
        for entry in redact(held):
            out.write(entry)
    assert_replay_identical(target)
    with Recording(target) as held:
        assert held.header.redacted
        text = "".join(str(entry) for entry in held.entries())
    assert [name for name in names - {""} if f'"{name}' in text] == []


@pytest.mark.parametrize("seed", [0, 1])
def test_whatever_happened_can_be_redacted(tmp_path: Path, seed: int) -> None:
    """No name that somebody gave is left, also of quotas, classes, and what was set aside."""
    source, target = tmp_path / "source.pumice", tmp_path / "redacted.pumice"
    walk = TroubledWalk(seed)
    walk.run(12)
    walk.record(source)
    walk.take([configuration(f"# Ask Ada.\n{CONFS[0]}", default_queue="b")])
    walk.run(30)
    walk.close()
    with Recording(source) as held, RecordingWriter(target) as out:
        for entry in redact(held):
            out.write(entry)
    assert_replay_identical(target)
    with Recording(target) as held:
        text = "".join(str(entry) for entry in held.entries())
    for name in ("team", "job-0", "shield", "low", "high", "hash of", "node-n", "Ada"):
        assert f'"{name}' not in text, name
    assert "Ada" not in text


def test_pods_keep_the_numbers_in_their_names_when_redacted(tmp_path: Path) -> None:
    source = shutil.copy(GOLDEN[0], tmp_path)
    with Recording(source) as held:
        before = [d.bind.name for e in held.entries() for d in e.decision_batch.decisions]
        after = [d.bind.name for e in redact(held) for d in e.decision_batch.decisions]
    binds = [(old, new) for old, new in zip(before, after, strict=True) if old]
    assert [old.rpartition("-")[2] for old, _ in binds] == [
        new.rpartition("-")[2] for _, new in binds
    ]


def test_data_about_a_node_is_renamed_with_the_node() -> None:
    seen = Collector()
    entry = RecordingEntry()
    op = entry.delta_batch.ops.add()
    op.plugin_data.plugin, op.plugin_data.name = "deviceshare", "npu/node-1"
    rewrite(entry, seen)
    assert "node-1" in seen.names
    assert "npu/node-1" not in seen.names
