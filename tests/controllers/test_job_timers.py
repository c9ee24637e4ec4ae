"""Timeouts of policies go on when a controller is killed: the cluster stores when they began."""

from typing import Any

import pytest

from pumice.controllers.job.controller import JobController
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import JOBS as JOB_RESOURCE
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.jobs import JOBS, NAMESPACE, FakeCluster, job, policy, task
from tests.controllers.model import KEY, Model
from tests.controllers.running import Loops
from tests.controllers.test_job import until_phase

FAILING = "pumice.sh/failing-since"
EVICTED = "pumice.sh/evicted-at"


def running(*policies: Any, **spec: Any) -> Model:
    model = Model(job("job", task("a", 2, **spec), policies=list(policies)))
    model.settle()
    model.admit()
    model.settle()
    for name in model.pods():
        model.set_phase(name, "Running")
    model.settle()
    assert model.phase == "Running"
    return model


def restart_container(model: Model, name: str, count: int, finished_at: str = "") -> None:
    body = model.objects["pods", name]
    status: dict[str, Any] = {"restartCount": count}
    if finished_at:
        status["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": finished_at}}
    model.put("pods", {**body, "status": {"phase": "Running", "containerStatuses": [status]}})


def look(model: Model) -> float | None:
    """One reconcile and its acts; when the next one is due."""
    observed = model.controller.observe(KEY, model.caches, model.now_ms)
    assert observed is not None
    plan = model.controller.reconcile(observed)
    model._perform(plan, None)
    return plan.again_seconds


def note(model: Model, pod: str, name: str) -> str:
    return str(model.objects["pods", pod]["metadata"]["annotations"].get(name, ""))


def test_the_timeout_of_a_failing_task_begins_once_whoever_looks() -> None:
    model = running(policy("TerminateJob", "TaskFailed", timeout="60s"))
    began = model.now_ms
    restart_container(model, "job-a-0", 3)
    assert look(model) == pytest.approx(60.0)
    assert note(model, "job-a-0", FAILING)
    # It goes on to restart, and the controller is killed twice.
    for seconds in (20, 40):
        model.now_ms = began + seconds * 1000
        restart_container(model, "job-a-0", 3 + seconds)
        model.restart()
        assert look(model) == pytest.approx(60.0 - seconds)
        assert model.phase == "Running"
    model.now_ms = began + 60_000
    model.restart()
    look(model)
    assert model.phase == "Terminating"


def test_the_last_restart_counts_when_no_controller_saw_it() -> None:
    model = running(policy("TerminateJob", "TaskFailed", timeout="1h"))
    model.now_ms += 1_000_000
    restart_container(model, "job-a-1", 3, "2027-01-15T08:10:00Z")
    model.restart()
    assert look(model) is not None
    assert note(model, "job-a-1", FAILING) == "2027-01-15T08:10:00.000Z"


def test_an_annotation_that_cannot_be_read_is_written_again() -> None:
    model = running(policy("TerminateJob", "TaskFailed", timeout="60s"))
    restart_container(model, "job-a-0", 3)
    look(model)
    since = note(model, "job-a-0", FAILING)
    body = model.objects["pods", "job-a-0"]
    body["metadata"]["annotations"][FAILING] = "yesterday"
    model.put("pods", body)
    look(model)
    assert note(model, "job-a-0", FAILING) == since


def test_a_task_that_has_recovered_begins_anew() -> None:
    model = running(policy("TerminateJob", "TaskFailed", timeout="60s"))
    restart_container(model, "job-a-0", 2)
    restart_container(model, "job-a-1", 1)
    look(model)
    assert note(model, "job-a-0", FAILING)
    # The other pod is replaced, and with it its restarts.
    model.remove("pods", "job-a-1")
    model.settle()
    assert not note(model, "job-a-0", FAILING)
    model.now_ms += 300_000
    model.set_phase("job-a-1", "Running")
    restart_container(model, "job-a-1", 1)
    assert look(model) == pytest.approx(60.0)


def test_without_a_timeout_nothing_is_annotated() -> None:
    model = running(policy("RestartPod", "PodEvicted"))
    restart_container(model, "job-a-0", 9)
    model.remove("pods", "job-a-1")
    model.settle()
    notes = [pod["metadata"]["annotations"] for pod in model.pods().values()]
    assert not [one for one in notes if FAILING in one or EVICTED in one]


def test_an_eviction_is_answered_in_time_by_a_controller_that_did_not_see_it() -> None:
    model = running(policy("TerminateJob", "PodEvicted", timeout="60s"))
    began = model.now_ms
    model.remove("pods", "job-a-1")
    look(model)
    assert note(model, "job-a-1", EVICTED)
    model.now_ms = began + 20_000
    model.restart()
    assert look(model) == pytest.approx(40.0)
    model.now_ms = began + 60_000
    model.restart()
    look(model)
    assert model.phase == "Terminating"


def test_a_replacement_that_runs_ends_the_eviction_for_a_new_controller_too() -> None:
    model = running(policy("TerminateJob", "PodEvicted", timeout="60s"))
    model.remove("pods", "job-a-1")
    look(model)
    model.set_phase("job-a-1", "Running")
    model.restart()
    model.now_ms += 300_000
    model.settle()
    assert model.phase == "Running"


async def test_a_killed_loop_goes_on_with_the_timeout(fake_api: FakeApi, loops: Loops) -> None:
    cluster = FakeCluster(fake_api)
    loops.start(JobController(ControllerOptions()))
    policies = [policy("TerminateJob", "TaskFailed", timeout="2s")]
    fake_api.put(JOBS, job("job", task("a", 1), policies=policies))
    await until_phase(cluster, "Running")
    body = fake_api.get("pods", NAMESPACE, "job-a-0")
    statuses = [{"name": "main", "ready": True, "restartCount": 5}]
    fake_api.put("pods", {**body, "status": {"phase": "Running", "containerStatuses": statuses}})

    def annotated() -> str:
        found = fake_api.get("pods", NAMESPACE, "job-a-0")["metadata"]["annotations"]
        return str(found.get(FAILING, ""))

    await until(annotated)
    since = annotated()
    await loops.kill()
    assert cluster.phase() == "Running"
    loops.start(JobController(ControllerOptions()))
    await until(lambda: cluster.phase() in ("Terminating", "Terminated"))
    assert annotated() == since


NUMBERS = ["9" * 5000, "-1", "+2", "two", "", "٣"]


@pytest.mark.parametrize("text", NUMBERS)
def test_annotations_that_users_change_end_no_watch(text: str) -> None:
    """Python reads no number of more than 4300 digits."""
    model = running(policy("RestartJob", "PodFailed"))
    for name in ("volcano.sh/task-index", "volcano.sh/job-version"):
        body = model.objects["pods", "job-a-1"]
        body["metadata"]["annotations"][name] = text
        model.put("pods", body)
        model.settle()
    model.remove("pods", "job-a-1")
    model.settle()
    assert "job-a-1" in model.pods()
    assert model.objects[JOB_RESOURCE.full_name, "job"]


def test_a_clock_that_is_set_back_does_not_delay_the_first_phase() -> None:
    model = Model(job("job", task("a", 2)))
    others = {(NAMESPACE, f"new {number}"): model.now_ms for number in range(200)}
    model.controller._new_ms.update(others)
    for _ in range(3):
        seconds = look(model)
    assert seconds is not None
    assert seconds < 60
    model.now_ms -= 3_600_000
    again = look(model)
    assert again is not None
    assert again < 60
    model.now_ms += 60_000
    look(model)
    assert model.phase == "Pending"


def test_jobs_that_are_being_deleted_do_not_delay_the_first_phase_of_others() -> None:
    model = Model(job("job", task("a", 2)))
    model.controller._new_ms.update({(NAMESPACE, f"{n}"): model.now_ms for n in range(200)})
    look(model)
    assert KEY in model.controller._new_ms
    body = model.job
    body["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"
    model.put(JOB_RESOURCE.full_name, body)
    look(model)
    assert KEY not in model.controller._new_ms
