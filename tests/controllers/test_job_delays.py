"""How long a Job's changes may wait, so that one look answers several of them."""

from typing import Any

import msgspec
import pytest

from pumice.controllers.job.delays import IDLE_SECONDS, STARTED_SECONDS, ChangeDelays
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.reconcile import (
    NEW_JOBS_AT_ONCE,
    STARTING_COUNTERS_MS,
    reconcile,
)
from pumice.controllers.job.types import Job, Pod
from pumice.controllers.podgroup.types import PodGroup
from pumice.controllers.resources import JOBS, POD_GROUP, PODS
from pumice.controllers.runtime.acts import Patch, Plan
from pumice.controllers.runtime.watches import Change, Watch
from tests.controllers.jobs import NAMESPACE, job, policy, task

KEY = (NAMESPACE, "job")
OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "job",
    "uid": "uid-job",
    "controller": True,
}


def owned(name: str, phase: str, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "ownerReferences": [OWNER]}
    return {"metadata": metadata, "status": {"phase": phase, **status}}


def pod_change(old: str, new: str) -> Change[Pod]:
    states = [msgspec.convert(owned("pod", one), Pod) if one else None for one in (old, new)]
    return Change(Watch(PODS, Pod), *states)


def group_change(old: str, new: str, **status: Any) -> Change[PodGroup]:
    before = msgspec.convert(owned("group", old), PodGroup)
    return Change(
        Watch(POD_GROUP, PodGroup), before, msgspec.convert(owned("group", new, **status), PodGroup)
    )


def read(**spec: Any) -> Job:
    return msgspec.convert(job("job", **{"minAvailable": 2, **spec}), Job)


def observed_delays(made: Job, *pods: Pod) -> ChangeDelays:
    delays = ChangeDelays()
    delays.observe(KEY, made, made.spec, pods)
    return delays


def in_phase(made: Job, phase: str, **metadata: Any) -> Job:
    status = msgspec.structs.replace(
        made.status, state=msgspec.structs.replace(made.status.state, phase=phase)
    )
    changed = msgspec.structs.replace(made.metadata, **metadata)
    return msgspec.structs.replace(made, metadata=changed, status=status)


def test_pods_that_start_wait_until_they_are_enough() -> None:
    delays = observed_delays(read())
    starts = pod_change("Pending", "Running")
    assert delays.seconds(starts) == IDLE_SECONDS
    assert delays.seconds(starts) == STARTED_SECONDS
    assert delays.seconds(starts) == STARTED_SECONDS


def test_pods_that_ran_at_the_last_look_count() -> None:
    delays = observed_delays(read(), msgspec.convert(owned("pod", "Running"), Pod))
    assert delays.seconds(pod_change("Pending", "Running")) == STARTED_SECONDS


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        ("", "Pending", IDLE_SECONDS),
        ("", "Running", 0.0),
        ("Pending", "Failed", 0.0),
        ("Running", "Succeeded", 0.0),
        ("Pending", "", 0.0),
    ],
)
def test_pods_that_end_or_are_not_as_created_do_not_wait(
    old: str, new: str, seconds: float
) -> None:
    assert observed_delays(read()).seconds(pod_change(old, new)) == seconds


@pytest.mark.parametrize(
    "spec",
    [
        {"tasks": [task("a"), task("b", dependsOn={"name": ["a"]})]},
        {"policies": [policy("RestartJob", "PodPending", timeout="1s")]},
    ],
)
def test_a_job_with_dependencies_or_timeouts_is_looked_at_sooner(spec: dict[str, Any]) -> None:
    delays = observed_delays(read(**spec))
    assert delays.seconds(pod_change("Pending", "Running")) == STARTED_SECONDS
    assert delays.seconds(pod_change("", "Pending")) == 0.0


def test_a_job_that_runs_is_looked_at_sooner() -> None:
    delays = observed_delays(in_phase(read(), "Running"))
    assert delays.seconds(pod_change("Pending", "Running")) == STARTED_SECONDS
    assert delays.seconds(pod_change("", "Pending")) == 0.0


def test_only_an_admission_and_conditions_of_a_pod_group_do_not_wait() -> None:
    delays = observed_delays(read())
    assert delays.seconds(group_change("Inqueue", "Running")) == IDLE_SECONDS
    assert delays.seconds(group_change("Running", "Running", running=2)) == IDLE_SECONDS
    assert delays.seconds(group_change("Pending", "Inqueue")) == 0.0
    assert delays.seconds(group_change("Running", "Unknown")) == 0.0
    waits = [{"type": "Unschedulable", "status": "True"}]
    assert delays.seconds(group_change("Inqueue", "Inqueue", conditions=waits)) == 0.0


def test_a_phase_that_the_controller_wrote_last_waits_unless_more_changed() -> None:
    made = read()
    delays = observed_delays(made)
    watch = Watch(JOBS, Job)
    pending = in_phase(made, "Pending")
    assert delays.seconds(Change(watch, made, pending)) == IDLE_SECONDS
    assert delays.seconds(Change(watch, pending, in_phase(made, "Running"))) == IDLE_SECONDS
    assert delays.seconds(Change(watch, pending, in_phase(made, "Aborting"))) == 0.0
    edited = in_phase(made, "Running", generation=2)
    assert delays.seconds(Change(watch, pending, edited)) == 0.0
    assert delays.seconds(Change(watch, None, pending)) == 0.0


def test_counters_of_jobs_that_start_wait_longer_when_there_are_many() -> None:
    made = in_phase(read(), "Pending")
    made.status.min_available = made.spec.min_available
    pods = [owned(f"job-work-{index}", "Pending") for index in range(2)]
    for body in pods:
        body["metadata"]["annotations"] = {"volcano.sh/task-spec": "work"}
    held = tuple(msgspec.convert(body, Pod) for body in pods)
    group = msgspec.convert(owned("job-", "Inqueue"), PodGroup)

    def wait_seconds(jobs: int) -> float | None:
        observed = Observed(made, made.spec, held, group, outdated_ms=0, outdated_jobs=jobs)
        return reconcile(observed).again_seconds

    assert wait_seconds(0) == STARTING_COUNTERS_MS / 1000
    assert wait_seconds(100) == STARTING_COUNTERS_MS / 1000 + 10
    assert wait_seconds(10_000) == 60.0


def test_the_first_phase_of_many_new_jobs_waits() -> None:
    made = read()
    group = msgspec.convert(owned("job-", "Inqueue"), PodGroup)

    def plan(job: Job, jobs: int, waited_ms: int = 0) -> Plan:
        return reconcile(
            Observed(job, job.spec, (), group, outdated_ms=waited_ms, outdated_jobs=jobs)
        )

    def stores_phase(found: Plan) -> bool:
        acts = [act for stage in found.stages for act in stage]
        return any(isinstance(act, Patch) and act.subresource == "status" for act in acts)

    assert stores_phase(plan(made, NEW_JOBS_AT_ONCE))
    many = plan(made, NEW_JOBS_AT_ONCE + 100)
    assert not stores_phase(many)
    assert many.again_seconds == 10.0
    assert stores_phase(plan(made, NEW_JOBS_AT_ONCE + 100, 10_000))
    assert plan(made, 10_000).again_seconds == 60.0


def test_the_first_phase_does_not_wait_when_more_is_to_be_stored() -> None:
    group = msgspec.convert(owned("job-", "Inqueue"), PodGroup)
    with_plugin = read(plugins={"env": []})
    too_few = read(minAvailable=100)
    idle = read(policies=[policy("RestartJob", event="JobUpdated")])
    for made in (with_plugin, too_few, idle):
        plan = reconcile(Observed(made, made.spec, (), group, outdated_ms=0, outdated_jobs=1000))
        last = plan.stages[-1][0]
        assert isinstance(last, Patch)
        assert last.body["status"]["state"]["phase"] == "Pending"


def test_a_job_that_runs_before_its_first_phase_is_stored_gets_both_phases() -> None:
    made = read()
    bodies = [owned(f"job-work-{index}", "Running") for index in range(made.spec.total)]
    for body in bodies:
        body["metadata"]["annotations"] = {"volcano.sh/task-spec": "work"}
    pods = tuple(msgspec.convert(body, Pod) for body in bodies)
    group = msgspec.convert(owned("job-", "Running"), PodGroup)
    observed = Observed(
        made, made.spec, pods, group, now_ms=90_000, outdated_ms=30_000, outdated_jobs=999
    )
    patch = reconcile(observed).stages[-1][0]
    assert isinstance(patch, Patch)
    assert patch.body["status"]["state"]["phase"] == "Running"
    assert [
        (one["status"], one["lastTransitionTime"]) for one in patch.body["status"]["conditions"]
    ] == [
        ("Pending", "1970-01-01T00:01:00Z"),
        ("Running", "1970-01-01T00:01:30Z"),
    ]
