"""The figures and the verdict of a what-if run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pumice.cli.main import run
from pumice.evaluation import Candidate, JobResult, JobState, Verdict, WhatIf, what_if
from pumice.evaluation.figures import percentiles
from pumice.evaluation.goals import GoalResult, goal_of, summary
from pumice.evaluation.job_results import job_results
from pumice.evaluation.lost_work import lost_work
from pumice.evaluation.ranking import dominates
from pumice.recordings.history import History
from pumice.recordings.pod_records import JobRecord, PodRecord
from pumice.v1.pod_pb2 import Pod, PodSpec
from tests.replay.test_closed_loop import GOLDEN, WITHOUT_EVICTIONS
from tests.replay.walks import PACKING

SECOND = 1_000_000_000
DEMO = next(path for path in GOLDEN if "evictions" in path.stem)


@pytest.fixture(scope="module")
def judged() -> WhatIf:
    return what_if([DEMO], Candidate(WITHOUT_EVICTIONS))


def record(uid: str, created: int = 0, decided: int = 0, **times: int) -> PodRecord:
    spec = PodSpec(requests={"cpu": 2000, "nvidia.com/gpu": 1000})
    pod = Pod(
        uid=uid, namespace="team", name=uid, group_name=uid.split("-", maxsplit=1)[0], spec=spec
    )
    held = PodRecord(uid, pod, created * SECOND, is_old=not created)
    held.decided_ns = held.bound_ns = decided * SECOND
    for name, second in times.items():
        setattr(held, f"{name}_ns", second * SECOND)
    return held


def results(*records: PodRecord, min_member: int = 1) -> dict[str, JobResult]:
    history = History(1 * SECOND, 100 * SECOND)
    history.pods = {one.uid: one for one in records}
    history.jobs = {one.job: JobRecord(one.job, "q", SECOND, min_member) for one in records}
    return job_results(history, history.pods, [])


def test_four_states_of_jobs_are_told_apart() -> None:
    old = record("ran-0")
    old.created_ns = old.bound_ns = SECOND
    found = results(
        old, record("came-0", 5, 8), record("waits-0", 10), record("went-0", 10, gone=30)
    )
    assert [(name, job.state, job.wait) for name, job in found.items()] == [
        ("team/came", JobState.STARTED, 3.0),
        ("team/ran", JobState.WAS_RUNNING, None),
        ("team/waits", JobState.WAITING, 90.0),
        ("team/went", JobState.DELETED, 20.0),
    ]


def test_a_gang_starts_when_its_minimum_is_placed_at_once() -> None:
    evicted = record("g-0", 5, 10, evicted=20, gone=25)
    found = results(evicted, record("g-1", 5, 30), record("g-2", 26, 40), min_member=2)
    assert found["team/g"].wait == 35.0
    found = results(evicted, record("g-1", 5, 30), min_member=2)
    assert found["team/g"].state is JobState.WAITING


def test_jobs_that_never_started_count_and_make_lower_bounds() -> None:
    found = percentiles(results(record("a-0", 5, 8), record("b-0", 10)).values())
    assert (found.count, found.never_started, found.p50, found.p99) == (2, 1, 3.0, 90.0)
    assert not found.is_lower_bound(found.p50)
    assert found.is_lower_bound(found.p99)


def test_an_eviction_loses_the_run_of_the_pod() -> None:
    pods = [record("a-0", 5, 10, running=12, evicted=20, terminating=22, gone=25)]
    assert lost_work(pods, 1, 100 * SECOND) == {"cpu": 20.0, "nvidia.com/gpu": 10.0}


def test_a_gang_that_falls_below_its_minimum_loses_all_runs() -> None:
    pods = [
        record("a-0", 5, 10, running=10, evicted=20, terminating=20, gone=25),
        record("a-1", 5, 10, running=10),
    ]
    assert lost_work(pods, 2, 100 * SECOND) == {"cpu": 40.0, "nvidia.com/gpu": 20.0}
    assert lost_work(pods, 1, 100 * SECOND) == {"cpu": 20.0, "nvidia.com/gpu": 10.0}


def test_a_pod_that_finished_before_its_eviction_loses_nothing() -> None:
    pods = [record("a-0", 5, 10, running=12, finished=30, evicted=29, gone=31)]
    assert lost_work(pods, 1, 100 * SECOND) == {}


@pytest.mark.parametrize(
    ("old", "new", "lower", "unit", "verdict"),
    [
        (10.0, 9.0, True, "s", Verdict.BETTER),
        (10.0, 9.95, True, "s", Verdict.SAME),
        (0.0, 0.09, True, "s", Verdict.SAME),
        (100.0, 102.0, True, "s", Verdict.WORSE),
        (50.0, 51.0, False, "", Verdict.BETTER),
        (0.80, 0.803, False, "share", Verdict.SAME),
        (None, 3.0, True, "s", Verdict.UNKNOWN),
    ],
)
def test_small_differences_are_none(
    old: float | None, new: float | None, lower: bool, unit: str, verdict: Verdict
) -> None:
    assert GoalResult("g", "g", unit, lower, old, new).verdict is verdict


def test_old_and_new_are_about_the_same_jobs(judged: WhatIf) -> None:
    assert judged.old.jobs.keys() == judged.new.jobs.keys()
    assert all(
        (job.wait is None) == (job.state is JobState.WAS_RUNNING)
        for job in judged.new.jobs.values()
    )


def test_the_verdict_weighs_evictions_against_waiting(judged: WhatIf) -> None:
    evictions, lost = goal_of(judged.goals, "evictions"), goal_of(judged.goals, "lost.cpu")
    assert (evictions.new, lost.new) == (0.0, 0.0)
    assert evictions.verdict is lost.verdict is Verdict.BETTER
    assert goal_of(judged.goals, "wait.p99").old
    assert goal_of(judged.goals, "use.nvidia.com/gpu").new
    assert {goal.name for goal in judged.goals} >= {
        "wait.queue.production.p90",
        "wait.priority.high.p50",
        "jobs.finished",
        "makespan",
        "fairness",
        "gangs.never-started",
    }
    assert summary(judged.goals).startswith("better in ")


def test_utilisation_without_lost_work_is_less(judged: WhatIf) -> None:
    assert judged.old.useful_shares["cpu"] < judged.old.shares["cpu"]
    assert judged.new.useful_shares == judged.new.shares


def test_fairness_is_a_share(judged: WhatIf) -> None:
    for figures in (judged.old, judged.new):
        assert 0 < figures.fairness <= 1
        assert all(0 <= value <= 1.0001 for value in figures.curves.fairness)


def test_one_dominates_another_that_is_nowhere_better() -> None:
    assert dominates([1, 2], [1, 3])
    assert not dominates([1, 2], [1, 2])
    assert not dominates([0, 4], [1, 3])


def test_several_candidates_are_ranked_in_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    confs = []
    for name, text in (("packing", PACKING), ("patient", WITHOUT_EVICTIONS)):
        (tmp_path / f"{name}.yaml").write_text(text)
        confs += ["--conf", str(tmp_path / f"{name}.yaml")]
    page = tmp_path / "page.html"
    asked = ["replay", str(DEMO), *confs, "--goal", "evictions", "--processes", "2"]
    assert run([*asked, "--page", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    assert sorted(one["candidate"] for one in found) == ["packing", "patient"]
    assert not found[0]["dominated"]
    text = page.read_text()
    assert "<svg" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert f"pumice replay {DEMO} --conf {tmp_path}/packing.yaml" in text
    assert "fairness between queues" in text


def test_a_page_shows_odd_names_as_text(tmp_path: Path) -> None:
    conf = tmp_path / "<b>&.yaml"
    conf.write_text(WITHOUT_EVICTIONS)
    page = tmp_path / "page.html"
    assert run(["replay", str(DEMO), "--conf", str(conf), "--page", str(page)]) == 0
    assert "<b>&." not in page.read_text()
    assert "&lt;b&gt;&amp;" in page.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--goal", "wait.p95"], "unknown goal 'wait.p95'; allowed: wait.p"),
        (["--plot", "q.png"], "the name must end in .svg"),
        (["--page", "q.pdf"], "the name must end in .html"),
    ],
)
def test_what_cannot_be_judged_is_said(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(GOLDEN[-1]), "--closed", *options]) == 2
    assert said in capsys.readouterr().err
