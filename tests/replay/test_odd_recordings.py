"""What would have happened, where something odd happened: people, gates, launchers, restarts."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pumice.cli.main import run
from pumice.evaluation import Candidate, WhatIf, what_if
from pumice.evaluation.figures import ALL
from pumice.recordings import Recording
from pumice.recordings.history import History
from pumice.recordings.pod_records import BY_CLEANUP, BY_USER
from pumice.server.wire.times import timestamp
from pumice.testing import recordings_in
from pumice.v1 import decision_pb2, delta_pb2, object_pb2, pod_pb2
from tests.replay.troubled_walks import TroubledWalk
from tests.replay.walks import EVICTING, OLDER, PACKING, Walk
from tests.server.running import SECOND, configuration, node, outcome, pod, queue, tombstone
from tests.server.running import group as pod_group

# Alike, but for the node: the first session that places something leaves the recording.
SPREADING = PACKING.replace("binpack", "nodeorder")


class JobHistory(Walk):
    """A cluster to which exactly what is told happens; decisions come true at once."""

    def __init__(self, path: Path, conf: str = PACKING) -> None:
        super().__init__(1, conf)
        self.record(path)
        self._first = [
            self._first[0],
            *self._upserts([queue("a"), node("n1", 8000), node("n2", 8000)]),
        ]

    def _happenings(self) -> list[delta_pb2.Op]:
        return [op for decision in self._taken() for op in self._carry_out(decision)]

    def _taken(self) -> list[decision_pb2.Decision]:
        taken, self._unseen = self._unseen, []
        return taken

    def _carry_out(self, decision: decision_pb2.Decision) -> list[delta_pb2.Op]:
        held = self._pods.get(decision.bind.uid)
        if held is None:
            return []
        held.pod.node_name, held.pod.phase = decision.bind.node, pod_pb2.POD_PHASE_RUNNING
        done = outcome(decision.id, decision_pb2.OUTCOME_CODE_APPLIED)
        return [done, *self._upserts([held])]

    def passes(self, seconds: int, *ops: delta_pb2.Op) -> None:
        """Something happens, and then there is a session a second."""
        if ops:
            self.take(ops)
        for _ in range(seconds):
            self.run(1)
            self.now_ns += SECOND // 2

    def job(self, name: str, size: int, cpu: int = 1000, minimum: int = 0) -> list[delta_pb2.Op]:
        made = pod_group(name, minimum or size, queue="a", creation_time=timestamp(self.now_ns))
        members = [pod(name, n, cpu, creation_time=timestamp(self.now_ns)) for n in range(size)]
        for held in members:
            held.pod.spec.non_zero_milli_cpu = cpu
        return self._upserts([made, *members])

    def finishes(self, *uids: str) -> list[delta_pb2.Op]:
        for uid in uids:
            self._pods[uid].pod.phase = pod_pb2.POD_PHASE_SUCCEEDED
        return self._upserts([self._pods[uid] for uid in uids])

    def goes(self, *uids: str) -> list[delta_pb2.Op]:
        for uid in uids:
            del self._pods[uid]
        return [tombstone(object_pb2.KIND_POD, uid) for uid in uids]

    def terminates(self, *uids: str) -> list[delta_pb2.Op]:
        for uid in uids:
            self._pods[uid].pod.terminating = True
        return self._upserts([self._pods[uid] for uid in uids])


def asked(*paths: Path, conf: str | None = SPREADING, leaves: bool | None = None) -> WhatIf:
    found = what_if(paths, Candidate(conf))
    if leaves is not None:
        assert (len(found.assumptions) > 1) == leaves
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "story.pumice"


def test_a_launcher_that_is_done_takes_its_workers_with_it_here_too(path: Path) -> None:
    story = JobHistory(path)
    story.passes(2, *story.job("first", 1))
    story.passes(2, *story.job("mpi", 4))
    story.passes(5)
    story.passes(2, *story.finishes("pod-mpi-0"))
    story.passes(1, *story.goes("pod-mpi-1", "pod-mpi-2", "pod-mpi-3"))
    story.passes(10)
    story.close()
    with Recording(path) as held:
        history = History.read(held.entries())
    assert [life.ended_by for life in history.pods.values()] == ["", "", *[BY_CLEANUP] * 3]
    found = asked(path, leaves=True)
    assert abs(found.new.queues[ALL].cpu_share - found.old.queues[ALL].cpu_share) < 0.02
    assert "1 pods were still running at the end of the recording" in found.assumptions[-1]


def test_people_who_stop_a_running_job_do_so_at_the_recorded_time(path: Path) -> None:
    story = JobHistory(path)
    story.passes(2, *story.job("first", 1))
    story.passes(3, *story.job("array", 4, minimum=1))
    story.passes(2, *story.finishes("pod-array-0"))
    left = ("pod-array-1", "pod-array-2", "pod-array-3")
    story.passes(3, tombstone(object_pb2.KIND_POD_GROUP, "group-array"), *story.terminates(*left))
    story.passes(8, *story.goes(*left))
    story.close()
    with Recording(path) as held:
        history = History.read(held.entries())
    assert [life.ended_by for life in history.pods.values()] == ["", "", *[BY_USER] * 3]
    found = asked(path, leaves=True)
    assert abs(found.new.queues[ALL].cpu_share - found.old.queues[ALL].cpu_share) < 0.02


def test_a_pod_behind_a_gate_waits_for_it_here_too(path: Path) -> None:
    story = JobHistory(path)
    story.passes(2, *story.job("plain", 2))
    made = story.job("gated", 1)
    held = story._pods["pod-gated-0"]
    for op in made:
        if op.upsert.object.HasField("pod"):
            op.upsert.object.pod.spec.scheduling_gates.append("quota")
    story.passes(6, *made)
    story.passes(3, *story._upserts([held]))
    story.close()
    found = asked(path, leaves=True)
    assert found.old.jobs["team/gated"].wait == pytest.approx(6, abs=2)
    assert found.new.jobs["team/gated"].wait == pytest.approx(6, abs=2)


def test_a_configuration_that_changed_inside_changes_here_too(path: Path) -> None:
    story = JobHistory(path, EVICTING)
    story.passes(3, *story.job("one", 2))
    story.passes(3, configuration(PACKING), *story.job("two", 2))
    story.passes(3, configuration("actions: fly"), *story.job("three", 2))
    story.close()
    same = asked(path, conf=None, leaves=False)
    assert same.new == same.old
    found = asked(path, leaves=True)
    assert found.new.jobs.keys() == found.old.jobs.keys()
    assert any("the configuration changed" in line for line in found.assumptions)


def test_files_that_follow_each_other_are_one_night(tmp_path: Path) -> None:
    whole = tmp_path / "whole.pumice"
    story = JobHistory(whole)
    rotating = tmp_path / "files"
    recorder = story.record(rotating, max_age_ns=3 * SECOND)
    for number in range(12):
        story.passes(1, *story.job(f"job-{number:02d}", 3, cpu=2500))
        # Its thread says when a file is full; the next session looks.
        written = threading.Event()
        recorder._queue.put(written.set)
        assert written.wait(30)
        if number > 3:
            story.take(story.finishes(*[f"pod-job-{number - 4:02d}-{n}" for n in range(3)]))
    story.close()
    assert len(recordings_in(rotating)) > 2
    one, many = asked(whole), asked(*recordings_in(rotating))
    assert many.old.jobs == one.old.jobs
    assert many.new.jobs == one.new.jobs
    assert run(["replay", str(rotating), "--closed"]) == 0
    assert run(["replay", str(rotating)]) == 0


@pytest.mark.parametrize("mode", [[], ["--closed"]], ids=["compared", "what-if"])
def test_files_without_a_session_are_no_error_beside_files_with_sessions(
    tmp_path: Path, mode: list[str]
) -> None:
    """A core that stops when it has just begun a file leaves one; so does a time before a file."""
    walk = Walk(3)
    walk.record(tmp_path / "1.pumice")
    walk.run(5)
    walk.close()
    until = datetime.fromtimestamp(walk.now_ns / SECOND, UTC).isoformat()
    walk.recorders.clear()
    walk.record(tmp_path / "2.pumice")
    walk.close()
    assert run(["replay", str(tmp_path), *mode]) == 0
    assert run(["replay", str(tmp_path / "2.pumice"), *mode]) == 2
    walk.recorders.clear()
    (tmp_path / "2.pumice").unlink()
    walk.record(tmp_path / "2.pumice")
    walk.run(5)
    walk.close()
    assert run(["replay", str(tmp_path), *mode]) == 0
    assert run(["replay", str(tmp_path), "--until", until, *mode]) == 0
    assert run(["replay", str(tmp_path), "--until", "2020-01-01T00:00:00Z", *mode]) == 2


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happened_there_is_an_answer(tmp_path: Path, seed: int) -> None:
    """Relists, resyncs, refused configurations, lost decisions: also under another configuration."""
    whole = tmp_path / "whole.pumice"
    walk = TroubledWalk(seed)
    walk.record(whole)
    walk.run(20)
    walk.record(tmp_path / "from-20.pumice")
    walk.run(30)
    walk.close()
    for held in recordings_in(tmp_path):
        same = asked(held, conf=None, leaves=False)
        assert same.new == same.old
        other = asked(held, conf=OLDER)
        assert 0 <= other.new.queues[ALL].cpu_share <= 1.5
        assert other.new.queues[ALL].pods
