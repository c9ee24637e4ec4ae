"""What-if runs with other queues, nodes, quotas and priorities."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.cli.main import run
from pumice.evaluation import (
    Candidate,
    CandidateError,
    JobState,
    OverrideError,
    Overrides,
    Verdict,
    WhatIf,
    what_if,
)
from pumice.v1 import object_pb2
from pumice.v1.group_pb2 import PriorityClass, Queue, ResourceQuota
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.pod_pb2 import Pod, PodSpec
from tests.replay.test_closed_loop import GOLDEN
from tests.replay.test_odd_recordings import JobHistory
from tests.replay.walks import PACKING
from tests.server.running import tombstone

DEMO = next(path for path in GOLDEN if "evictions" in path.stem)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes with 8 cores, and three jobs that need 6 of them each for 10 s."""
    path = tmp_path_factory.mktemp("crowded") / "crowded.pumice"
    story = JobHistory(path)
    for name in ("one", "two", "three"):
        story.passes(1, *story.job(name, 1, cpu=6000))
    story.passes(7)
    story.passes(1, *story.finishes("pod-one-0"))
    story.passes(10)
    story.close()
    return path


def asked(path: Path, fields: dict[str, object] | None = None, **nodes: object) -> WhatIf:
    return what_if([path], Candidate(overrides=Overrides.of(fields or {}, **nodes)))  # type: ignore[arg-type]


def test_an_added_node_takes_the_job_that_waited(crowded: Path) -> None:
    found = asked(crowded, add_nodes={"n1": 1})
    assert found.old.jobs["team/three"].wait == pytest.approx(8.5, abs=2)
    assert found.new.jobs["team/three"].wait == pytest.approx(0, abs=0.5)
    assert found.new.shares["cpu"] < found.old.shares["cpu"] + 0.01


def test_without_a_node_jobs_wait_longer(crowded: Path) -> None:
    found = asked(crowded, remove_nodes=["n2"])
    waits = [found.new.jobs[f"team/{name}"].wait or 0.0 for name in ("one", "two", "three")]
    assert waits[0] < 0.5
    assert waits[1] > 5
    assert found.new.jobs.keys() == found.old.jobs.keys()


def test_a_larger_node_and_a_closed_queue_have_effect(crowded: Path) -> None:
    found = asked(crowded, {"nodes/n*/allocatable/cpu": "16"})
    assert found.new.jobs["team/three"].wait == pytest.approx(0, abs=0.5)
    found = asked(crowded, {"queues/a/state": "Closed"})
    assert all(job.never_started for job in found.new.jobs.values())
    found = asked(crowded, {"queues/a/capability/cpu": "7"})
    assert found.new.jobs["team/two"].wait != found.old.jobs["team/two"].wait


def test_pods_of_a_removed_node_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "running.pumice"
    story = JobHistory(path)
    story.passes(2, *story.job("before", 1, cpu=2000))
    node = story._pods["pod-before-0"].pod.node_name
    story.close()
    later = tmp_path / "later.pumice"
    story.record(later)
    story.passes(10)
    story.close()
    found = asked(later, remove_nodes=[node])
    assert found.new.evictions == 0
    assert found.new.queues[""].placed == 1


def test_every_kind_of_object_is_changed() -> None:
    changes = Overrides.of(
        {
            "queues/q/weight": 7,
            "queues/q/reclaimable": False,
            "queues/q/deserved/nvidia.com/gpu": "3",
            "nodes/n1/allocatable/memory": "2Gi",
            "nodes/n1/unschedulable": True,
            "quotas/team/q/requests.cpu": "1500m",
            "priorities/high": 50,
        }
    )
    queue = ClusterObject(queue=Queue(name="q"))
    node = ClusterObject(node=Node(name="n1"))
    quota = ClusterObject(resource_quota=ResourceQuota(namespace="team", name="q"))
    named = ClusterObject(priority_class=PriorityClass(name="high", value=9))
    pod = ClusterObject(
        pod=Pod(spec=PodSpec(priority_class_name="high"), priority=9, task_priority=9)
    )
    for held in (queue, node, quota, named, pod):
        assert changes.change(held)
    assert (queue.queue.weight, queue.queue.reclaimable) == (7, False)
    assert queue.queue.deserved.amounts == {"nvidia.com/gpu": 3000}
    assert node.node.allocatable == {"memory": 2 << 30}
    assert node.node.unschedulable
    assert quota.resource_quota.hard_milli == {"requests.cpu": 1500}
    assert (named.priority_class.value, pod.pod.priority, pod.pod.task_priority) == (50, 50, 50)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues/q=3", "expected queues/NAME/FIELD=VALUE"),
        ("queue/q/weight=3", "allowed: queues/NAME/FIELD=VALUE"),
        ("queues/q/weight", "invalid override; allowed: "),
        ("queues/q/weight=0", "from 1 to 65535"),
        ("queues/q/weight=four", "a whole number"),
        ("queues/q/wait=4", "unknown field; allowed: capability/RESOURCE"),
        ("queues/q/state=Ajar", "expected Open or Closed"),
        ("queues/q/capability/cpu=-1", "negative"),
        ("queues/q/capability/cpu=many", "many"),
        ("nodes/n/unschedulable=yes", "expected true or false"),
        ("nodes/n/taints=x", "unknown field; allowed: allocatable/RESOURCE"),
        ("quotas/team/cpu=3", "expected quotas/NAMESPACE/NAME/RESOURCE=VALUE"),
        ("priorities/high=99999999999", "a whole number"),
    ],
)
def test_an_override_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(OverrideError, match=said):
        Overrides.of([text])


def test_an_override_of_nothing_is_refused(crowded: Path) -> None:
    with pytest.raises(
        CandidateError, match="queues/b: matches no object of the recording; it has a"
    ):
        asked(crowded, {"queues/b/weight": 2})
    with pytest.raises(CandidateError, match="nodes/x"):
        asked(crowded, add_nodes={"x": 2})


def test_weights_of_queues_change_who_waits() -> None:
    found = asked(DEMO, {"queues/research/weight": 100})
    assert found.new != found.old


def test_a_candidate_file_has_all_of_it(
    crowded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("name: one more\nset: {queues/a/weight: 3}\naddNodes: {n1: 1}\n")
    assert run(["replay", str(crowded), "--candidate", str(file)]) == 0
    assert "one more: better in" in capsys.readouterr().out
    page, more = tmp_path / "page.html", ["--no-eager", "--set", "nodes/n1/labels/a=b c"]
    asked = ["replay", str(crowded), "--candidate", str(file), "--page", str(page)]
    assert run([*asked, *more]) == 0
    command = f"pumice replay {crowded} --candidate {file} --no-eager"
    assert f"{command} --set &#x27;nodes/n1/labels/a=b c&#x27;" in page.read_text()
    capsys.readouterr()
    for body, said in (
        ("nodes: {}", "unknown key 'nodes'"),
        ("- 1", "expected a mapping"),
        ("eager: 3", "eager: expected true or false"),
        ("set: [", "invalid YAML"),
        ("schedulePeriod: 0", "from 0.01 to 3600"),
        ("{conf: '', confFile: x}", "cannot be used together"),
        ("addNodes: {n1: none}", "copies of node n1"),
        ("set: {queues/a/weight: -1}", "from 1 to 65535"),
    ):
        file.write_text(body)
        assert run(["replay", str(crowded), "--candidate", str(file)]) == 2
        assert said in capsys.readouterr().err


def test_a_queue_that_disappears_leaves_its_jobs_waiting(tmp_path: Path) -> None:
    path = tmp_path / "queue.pumice"
    story = JobHistory(path)
    story.passes(2, *story.job("one", 1, cpu=6000))
    story.passes(2, tombstone(object_pb2.KIND_QUEUE, "queue-a"))
    story.passes(3, *story.job("two", 1))
    story.passes(5)
    story.close()
    found = asked(path, {"queues/a/weight": 5}, add_nodes={"n1": 2}, remove_nodes=["n2"])
    assert found.new.jobs["team/two"].state is JobState.WAITING
    assert found.new.waits(queue="a").never_started == 1


def test_without_any_node_nothing_starts_and_nothing_is_divided_by_zero(crowded: Path) -> None:
    found = asked(crowded, remove_nodes=["*"])
    assert all(job.never_started for job in found.new.jobs.values())
    assert found.new.shares == {}
    wait = next(goal for goal in found.goals if goal.name == "wait.p90")
    assert (wait.new_is_bound, wait.verdict) == (True, Verdict.WORSE)


def test_a_candidate_that_cannot_be_loaded_is_named(
    crowded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.yaml").write_text(PACKING)
    (tmp_path / "bad.yaml").write_text("actions: fly\n")
    confs = ["--conf", str(tmp_path / "good.yaml"), "--conf", str(tmp_path / "bad.yaml")]
    assert run(["replay", str(crowded), *confs, "--processes", "1"]) == 2
    assert "bad: configuration line 1: actions: unknown action 'fly'" in capsys.readouterr().err
