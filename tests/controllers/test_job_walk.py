"""The state machine against random events, and controllers that are killed after every act."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pumice.controllers.job.types import Action
from tests.controllers.jobs import job, policy, task
from tests.controllers.model import Killed, Model

ENDS = {"Completed", "Failed", "Terminated", "Aborted"}
ACTIONS = st.sampled_from([action.value for action in Action])
EVENTS = st.sampled_from(["*", "PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown"])


class JobWalk(RuleBasedStateMachine):
    """One job, and everything that can happen to it, in any order, with restarts in between."""

    model: Model

    @initialize(
        policies=st.lists(st.tuples(ACTIONS, EVENTS), max_size=2),
        replicas=st.integers(1, 3),
        least=st.integers(0, 3),
        retries=st.integers(0, 3),
        success=st.one_of(st.none(), st.integers(1, 3)),
    )
    def submit(
        self,
        policies: list[tuple[str, str]],
        replicas: int,
        least: int,
        retries: int,
        success: int | None,
    ) -> None:
        spec: dict[str, Any] = {"policies": [policy(a, e) for a, e in policies]}
        if success is not None:
            spec["minSuccess"] = success
        tasks = [task("a", replicas, minAvailable=min(least, replicas)), task("b", 1)]
        self.model = Model(job("job", *tasks, maxRetry=retries, **spec))

    @rule()
    def reconcile(self) -> None:
        self.model.settle()

    @rule(after=st.integers(1, 4))
    def kill(self, after: int) -> None:
        try:
            self.model.settle(self.model.acts + after)
        except Killed:
            self.model.restart()

    @rule()
    def admit(self) -> None:
        self.model.admit()

    @rule()
    def bury(self) -> None:
        self.model.bury()

    @rule(choice=st.integers(0, 9), phase=st.sampled_from(["Running", "Succeeded", "Failed"]))
    @precondition(lambda self: self.model.pods())
    def change_pod(self, choice: int, phase: str) -> None:
        name, body = sorted(self.model.pods().items())[choice % len(self.model.pods())]
        before = body.get("status", {}).get("phase", "Pending")
        if before in ("Pending", "Running"):
            self.model.set_phase(name, phase, 1 if phase == "Failed" else 0)

    @rule(choice=st.integers(0, 9))
    @precondition(lambda self: self.model.pods())
    def evict(self, choice: int) -> None:
        self.model.remove("pods", sorted(self.model.pods())[choice % len(self.model.pods())])

    @rule(action=ACTIONS)
    def command(self, action: str) -> None:
        self.model.command(action)

    @rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        body = self.model.job
        body["spec"]["tasks"][0]["replicas"] = replicas
        body["spec"]["tasks"][0]["minAvailable"] = 0
        body["metadata"]["generation"] += 1
        self.model.put("jobs.batch.volcano.sh", body)

    @invariant()
    def nothing_is_left_undone(self) -> None:
        if hasattr(self, "model"):
            self.model.settle()
            self.model.check()

    def teardown(self) -> None:
        """Every job ends once its pods do."""
        if not hasattr(self, "model"):
            return
        model = self.model
        model.job["spec"]["policies"] = []
        model.job["metadata"]["generation"] += 1
        for _ in range(12):
            model.put("jobs.batch.volcano.sh", model.job)
            model.settle()
            model.admit()
            model.settle()
            for name in list(model.pods()):
                model.set_phase(name, "Succeeded")
            model.settle()
            model.bury()
        model.settle()
        total = sum(one["replicas"] for one in model.job["spec"]["tasks"])
        assert model.phase in ENDS or not total, model.job


TestJobWalk = JobWalk.TestCase
TestJobWalk.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def story(model: Model, kill_after: int | None) -> None:
    """A job with plugins and a claim starts, restarts once and completes."""

    def settle() -> None:
        try:
            model.settle(kill_after)
        except Killed:
            model.restart()
            model.settle()

    settle()
    model.admit()
    settle()
    for name in list(model.pods()):
        model.set_phase(name, "Running")
    settle()
    model.set_phase("job-a-0", "Failed", 1)
    settle()
    model.bury()
    settle()
    model.admit()
    settle()
    for name in list(model.pods()):
        model.set_phase(name, "Succeeded")
    settle()


def story_job() -> dict[str, Any]:
    volumes = [{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
    plugins: dict[str, list[str]] = {"svc": [], "ssh": ["--ssh-private-key=x"]}
    policies = [policy("RestartJob", "PodFailed")]
    tasks = (task("a", 2), task("b", 1))
    return job("job", *tasks, volumes=volumes, plugins=plugins, policies=policies)


def test_a_controller_that_is_killed_after_any_act_goes_on() -> None:
    whole = Model(story_job())
    story(whole, None)
    assert whole.phase == "Completed"
    assert whole.acts > 20
    for kill_after in range(1, whole.acts + 1):
        model = Model(story_job())
        story(model, kill_after)
        assert model.phase == "Completed", kill_after
        assert sorted(model.created) == sorted(whole.created), kill_after
        assert model.job["status"]["retryCount"] == 1, kill_after
        model.check()


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "AbortJob", "TerminateJob"])
def test_an_action_that_is_interrupted_is_completed(action: str) -> None:
    results = []
    for kill_after in (None, *range(1, 14)):
        model = Model(job("job", task("a", 3, policies=[policy(action, "PodFailed")])))
        try:
            model.settle()
            model.admit()
            model.settle()
            for name in list(model.pods()):
                model.set_phase(name, "Running")
            model.settle()
            model.set_phase("job-a-1", "Failed", 1)
            model.settle(None if kill_after is None else model.acts + kill_after)
        except Killed:
            model.restart()
            model.settle()
        model.bury()
        model.settle()
        status = model.job["status"]
        kept = (model.phase, status.get("retryCount"), status.get("version"))
        results.append((*kept, sorted(model.pods()), sorted(model.created)))
    assert all(result == results[0] for result in results), results


def test_a_job_without_retries_left_makes_nothing_new() -> None:
    model = Model(
        job("job", task("a", 2), policies=[policy("RestartJob", "PodFailed")], maxRetry=1)
    )
    model.settle()
    model.admit()
    model.settle()
    groups = [key for key in model.made if key[0].startswith("podgroups")]
    model.set_phase("job-a-0", "Failed", 1)
    model.settle()
    model.bury()
    model.settle()
    assert model.phase == "Failed"
    assert [key for key in model.made if key[0].startswith("podgroups")] == groups
    assert sorted(model.created) == [("job-a-0", 0), ("job-a-1", 0)]
    assert list(model.pods()) == ["job-a-0"]
