"""A policy as a test: what-if runs, and plugins that raise."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import ClassVar

import pytest

from pumice.cli.main import run
from pumice.core.configuration import Arguments, PluginOptions
from pumice.core.model.reasons import Reason
from pumice.core.registry import Registry
from pumice.core.session.session import Session
from pumice.evaluation import JobState, UnknownGoalError, Verdict
from pumice.recordings import Recording, RecordingError
from pumice.testing import (
    PluginFaultError,
    RecordingWarning,
    assert_replay_identical,
    cluster,
    what_if,
)
from tests.replay.test_closed_loop import WITHOUT_EVICTIONS

DEMO = Path(__file__).parents[1] / "recordings" / "demo-with-evictions.pumice"
WITH_BROKEN = WITHOUT_EVICTIONS + "  - name: broken\n"


class BrokenPlugin:
    """Raises for the third job that it is asked about."""

    name: ClassVar[str] = "broken"
    api: ClassVar[int] = 1
    arguments: ClassVar[type[Arguments]] = Arguments
    asked: ClassVar[int] = 0

    def __init__(self, options: PluginOptions) -> None:
        pass

    def open(self, session: Session) -> None:
        session.hooks.why_not_valid[self.name] = self._why_not_valid

    def _why_not_valid(self, job: object) -> Reason | None:
        BrokenPlugin.asked += 1
        if BrokenPlugin.asked > 2:
            raise RuntimeError("lost its way")
        return None


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry([BrokenPlugin])
    monkeypatch.setattr("pumice.server.local.installed_registry", lambda: registry)
    monkeypatch.setattr(BrokenPlugin, "asked", 0)


def test_a_promise_about_waiting_is_kept_or_names_the_jobs() -> None:
    found = what_if(DEMO, conf=WITHOUT_EVICTIONS)
    found.assert_waits_at_most(3600)
    found.assert_waits_at_most(3600, queue="production", priority="high")
    with pytest.raises(AssertionError, match=r"\d+ jobs wait longer than 0 s\n  simulated/job-"):
        found.assert_waits_at_most(0, queue="production")
    with pytest.raises(ValueError, match=r"no job has queue 'prod' .*queues: default, production"):
        found.assert_waits_at_most(1, queue="prod")


def test_results_are_typed_and_about_one_set_of_jobs() -> None:
    found = what_if(DEMO, conf=WITHOUT_EVICTIONS)
    job = found.jobs["simulated/job-0001"]
    assert job.old.state in JobState
    assert {job.job for job in found.jobs.values()} == set(found.new.jobs)
    assert found.goal("evictions").verdict is Verdict.BETTER
    assert "evictions" in found.better
    assert not set(found.better) & set(found.worse)
    with pytest.raises(UnknownGoalError, match=r"unknown goal 'wait\.p9'; allowed: wait\.p99"):
        found.goal("wait.p9")


def test_other_queues_and_nodes_can_be_asked_for() -> None:
    found = what_if(DEMO, overrides={"queues/research/weight": 9}, add_nodes={"node-0001": 4})
    assert (found.new.waits().mean or 0) < (found.old.waits().mean or 0)


def test_a_plugin_that_raises_fails_a_cycle_with_file_and_line(broken: None) -> None:
    small = cluster(WITH_BROKEN).nodes(2)
    for number in range(5):
        small.job(f"job-{number}")
    line = inspect.getsourcelines(BrokenPlugin._why_not_valid)[1] + 3
    with pytest.raises(
        PluginFaultError, match=rf"broken raised .*lost its way.*what_if\.py:{line}"
    ):
        small.cycles(3)


def test_faults_can_be_allowed(broken: None) -> None:
    small = cluster(WITH_BROKEN, allow_faults=True).nodes(2).job("a").job("b").job("c")
    faults = [fault for cycle in small.cycles(3) for fault in cycle.faults]
    assert faults[0].author == "broken"


def test_a_plugin_that_raises_in_the_middle_ends_a_what_if(
    broken: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PluginFaultError, match="broken raised in"):
        what_if(DEMO, conf=WITH_BROKEN)
    assert what_if(DEMO, conf=WITH_BROKEN, allow_faults=True).faults
    conf = tmp_path / "broken.yaml"
    conf.write_text(WITH_BROKEN)
    assert run(["replay", str(DEMO), "--conf", str(conf)]) == 1
    told = capsys.readouterr()
    assert "broken raised in" in told.err
    assert "lost its way" in told.err
    assert "the run ended there, and is not judged" in told.err
    assert told.out == ""
    assert run(["replay", str(DEMO), "--conf", str(conf), "--allow-faults"]) == 1
    assert "broken: better in" in capsys.readouterr().out


def test_a_recording_with_a_plugin_that_is_not_installed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "theirs.pumice"
    with Recording(DEMO) as held:
        entries = list(held.entries())
    from pumice.recordings import RecordingWriter

    with RecordingWriter(path) as out:
        for entry in entries:
            if entry.HasField("checkpoint") and entry.checkpoint.HasField("configuration"):
                entry.checkpoint.configuration.scheduler_conf = WITH_BROKEN
            for op in entry.delta_batch.ops:
                if op.HasField("configuration"):
                    op.configuration.scheduler_conf = WITH_BROKEN
            out.write(entry)
    assert run(["replay", str(path)]) == 2
    assert "refused here: " in (told := capsys.readouterr().err)
    assert "'broken'" in told
    assert run(["replay", str(path), "--closed"]) == 2
    assert run(["replay", str(path), "--allow-missing-plugins"]) in (0, 1)
    with pytest.raises(RecordingError, match="'broken'"):
        assert_replay_identical(path)
    # With another configuration the missing plugin is not needed.
    assert what_if(path, conf=WITHOUT_EVICTIONS).jobs


def test_damage_warns_and_fails_where_it_is_asked_for(tmp_path: Path) -> None:
    torn = tmp_path / "torn.pumice"
    with Recording(DEMO) as held:
        torn.write_bytes(DEMO.read_bytes()[: held.frames()[4].offset_bytes + 9])
    with pytest.warns(RecordingWarning, match="is truncated"):
        assert_replay_identical(torn)
    with pytest.raises(AssertionError, match="is truncated"):
        assert_replay_identical(torn, strict=True)
    assert run(["replay", str(torn)]) == 0
    assert run(["replay", str(torn), "--strict"]) == 2
    with pytest.warns(RecordingWarning, match="is truncated"):
        what_if(torn)
    with pytest.raises(RecordingError, match="is truncated"):
        what_if(torn, strict=True)
    assert run(["replay", str(torn), "--closed"]) == 0
    assert run(["replay", str(torn), "--closed", "--strict"]) == 2


def test_recordings_are_needed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no recording given"):
        what_if()
    with pytest.raises(FileNotFoundError, match="no file in this folder"):
        what_if(tmp_path)
