"""Run times are learned from pods that end, by template and by queue, and the oldest are dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pumice.core.deltas import Deleted, PodsUpserted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.pod import Pod, PodPhase
from pumice.recordings import Recording
from pumice.server.estimating.learning import learn_ends, learn_path, learn_recording
from pumice.server.estimating.run_times import (
    MAX_GRACES,
    MAX_RUNS_OF_QUEUE,
    MAX_RUNS_OF_TEMPLATE,
    MAX_TEMPLATE_QUEUES,
    MAX_TEMPLATES,
    RunTimes,
    Template,
    template_of,
)
from pumice.server.ops import NumberedOp, NumberedPods
from pumice.v1.object_pb2 import KIND_POD
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue

SECOND = 10**9
RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("train", "train"),
        ("train-28391", "train"),
        ("train-x7k2p", "train"),
        ("train-5f1c1c1e-7a0b-4a52-9a7e-0c8a3b6f2d11", "train"),
        ("nightly-train-28391-x7k2p", "nightly-train"),
        ("train-model", "train-model"),
        ("train-v2", "train-v2"),
        ("-7", "-7"),
        ("7", "7"),
    ],
)
def test_jobs_of_one_template_share_their_history(name: str, template: str) -> None:
    assert template_of(pod("p", name), "q") == Template("ns", "q", template, "")


def test_pods_in_a_group_of_their_own_are_named_by_their_controller() -> None:
    held = pod("p", "podgroup-5f1c1c1e", controller_name="batch-4", role="worker")
    assert template_of(held, "q") == Template("ns", "q", "batch", "worker")


# Live.


def cluster(*pods: Pod) -> Engine:
    groups = {held.group_name for held in pods}
    return fill(Engine(), queue(), node("n1"), *(pod_group(name) for name in groups), pods)


def started(name: str, seconds: int, job: str = "train-1") -> Pod:
    return replace(pod(name, job, on="n1"), start_time_ns=NOW_NS - seconds * SECOND)


def seen(learned: RunTimes, engine: Engine, *ops: NumberedOp, now_ns: int = NOW_NS) -> None:
    learn_ends(learned, engine.cache, ops, now_ns)
    engine.apply([op.delta for op in ops if op.delta is not None])


def upsert(held: Pod) -> NumberedOp:
    return NumberedOp(1, KIND_POD, held.uid, 1, Upserted(held))


def test_a_pod_that_finishes_is_learned_once() -> None:
    held, learned = started("p", 50), RunTimes()
    engine = cluster(held)
    done = replace(held, phase=PodPhase.SUCCEEDED)
    seen(learned, engine, upsert(done))
    seen(learned, engine, upsert(done), now_ns=NOW_NS + 10 * SECOND)
    assert learned.past().by_template == {Template("ns", "default", "train", ""): (50 * SECOND,)}
    assert learned.past().by_queue == {"default": (50 * SECOND,)}


def test_pods_that_come_together_are_learned() -> None:
    pods = [started(f"p{number}", 10 * (number + 1), f"j{number}x") for number in range(3)]
    engine, learned = cluster(*pods), RunTimes()
    done = [replace(held, phase=PodPhase.FAILED) for held in pods]
    seen(
        learned,
        engine,
        NumberedPods(1, KIND_POD, delta=PodsUpserted(done), pods=done, revisions=[1] * 3),
    )
    assert learned.past().by_queue == {"default": (10 * SECOND, 20 * SECOND, 30 * SECOND)}


def test_a_gang_that_ends_together_counts_once_with_its_longest_run() -> None:
    pods = [started(f"p{number}", 50 - number) for number in range(8)]
    engine, learned = cluster(*pods), RunTimes()
    for number, held in enumerate(pods):
        done = replace(held, phase=PodPhase.SUCCEEDED)
        seen(learned, engine, upsert(done), now_ns=NOW_NS + number * SECOND // 100)
    assert learned.past().by_queue == {"default": (50 * SECOND,)}
    assert len(learned) == 1


def test_pods_of_a_job_that_end_one_by_one_count_each() -> None:
    pods = [started(f"p{number}", 50) for number in range(3)]
    engine, learned = cluster(*pods), RunTimes()
    for number, held in enumerate(pods):
        done = replace(held, phase=PodPhase.SUCCEEDED)
        seen(learned, engine, upsert(done), now_ns=NOW_NS + number * 60 * SECOND)
    assert learned.past().by_queue == {"default": (50 * SECOND, 110 * SECOND, 170 * SECOND)}


def test_a_deleted_pod_counts_where_others_of_its_job_succeeded() -> None:
    worker, learned = started("w", 50), RunTimes()
    server = replace(started("ps", 60), role="ps")
    engine = cluster(server, worker)
    seen(learned, engine, upsert(replace(worker, phase=PodPhase.SUCCEEDED)))
    seen(learned, engine, NumberedOp(2, KIND_POD, server.uid, delta=Deleted(Pod, server.uid)))
    assert learned.past().by_queue == {"default": (50 * SECOND, 60 * SECOND)}


def test_a_pod_that_somebody_deletes_says_nothing_about_run_times() -> None:
    held, learned = started("p", 60), RunTimes()
    engine = cluster(held)
    seen(learned, engine, upsert(replace(held, terminating=True)))
    gone = NumberedOp(2, KIND_POD, held.uid, delta=Deleted(Pod, held.uid))
    seen(learned, engine, gone, now_ns=NOW_NS + 7 * SECOND)
    assert len(learned) == 0
    assert learned.past().graces == (7 * SECOND,)


def test_clocks_that_differ_teach_nothing() -> None:
    held, learned = started("p", -5), RunTimes()
    seen(learned, cluster(held), upsert(replace(held, phase=PodPhase.SUCCEEDED)))
    assert len(learned) == 0


# Limits.


def test_the_oldest_run_times_are_dropped() -> None:
    learned = RunTimes()
    for number in range(MAX_RUNS_OF_QUEUE + 20):
        learned.add(Template("ns", "q", "train", ""), f"job-{number}", number + 1, number)
    past = learned.past()
    assert past.by_queue["q"] == tuple(range(21, MAX_RUNS_OF_QUEUE + 21))
    assert len(past.by_template[Template("ns", "q", "train", "")]) == MAX_RUNS_OF_TEMPLATE
    for number in range(MAX_TEMPLATES + 5):
        learned.add(Template("ns", f"q{number % 1500}", f"t{number}", ""), "j", 1, 0)
    past = learned.past()
    assert len(past.by_template) == MAX_TEMPLATES
    assert len(past.by_queue) == MAX_TEMPLATE_QUEUES
    assert "q" not in past.by_queue


def test_pods_that_never_end_terminating_are_forgotten() -> None:
    learned = RunTimes()
    for number in range(MAX_GRACES + 10):
        learned.note_terminating(f"uid-{number}", 0)
    for number in range(MAX_GRACES + 10):
        learned.note_deleted(f"uid-{number}", 5)
    assert learned.past().graces == (5,) * MAX_GRACES


def test_run_times_from_elsewhere_count_like_own_ones() -> None:
    older, template = RunTimes(), Template("ns", "q", "train", "")
    older.add(template, "a", 10, 0)
    own = RunTimes(older)
    assert own.past().by_template == {template: (10,)}
    own.add(template, "b", 5, 0)
    assert own.past().by_template == {template: (5, 10)}


# Recordings.


def test_run_times_are_read_from_a_recording() -> None:
    learned = RunTimes()
    with Recording(RECORDINGS / "demo-with-evictions.pumice") as recording:
        learn_recording(learned, recording.entries())
    past = learned.past()
    assert set(past.by_queue) == {"default", "production", "research"}
    # The demo's jobs run for two to eight seconds.
    runs = [run / SECOND for runs in past.by_queue.values() for run in runs]
    assert min(runs) > 1.5
    assert max(runs) < 10
    assert past.graces


def test_a_folder_is_read_and_what_is_no_recording_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = (RECORDINGS / "demo-with-evictions.pumice").read_bytes()
    (tmp_path / "a.pumice").write_bytes(b"not a recording")
    (tmp_path / "b.pumice").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "other.txt").write_text("nothing")
    learned = RunTimes()
    learn_path(learned, tmp_path)
    assert len(learned) > 0
    assert "a.pumice" in caplog.text
