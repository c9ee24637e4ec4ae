"""The controllers of JobFlows and JobTemplates."""

from typing import Any

from pumice.controllers.job.controller import JobController
from pumice.controllers.job.types import Job, JobState, JobStatus
from pumice.controllers.jobflow.controller import (
    JobFlowController,
    JobTemplateController,
    ObservedTemplate,
)
from pumice.controllers.jobflow.reconcile import Observed, merged, never_ready, reconcile
from pumice.controllers.jobflow.types import (
    Flow,
    FlowDependsOn,
    JobFlow,
    JobFlowSpec,
    JobTemplate,
    TemplateStatus,
)
from pumice.controllers.options import ControllerOptions
from pumice.controllers.runtime.acts import NOTHING, Create, Delete, Emit, Patch
from pumice.controllers.runtime.objects import Metadata
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Object
from tests.controllers.jobs import GROUPS, QUEUES, task
from tests.controllers.running import Loops

JOBS, FLOWS, TEMPLATES = (
    "jobs.batch.volcano.sh", "jobflows.flow.volcano.sh", "jobtemplates.flow.volcano.sh",
)  # fmt: skip


def flow(phase: str = "", policy: str = "", name: str = "f", **flows: list[str]) -> JobFlow:
    made = [Flow(name, FlowDependsOn(targets)) for name, targets in flows.items()]
    metadata = Metadata(name=name, namespace="ns", uid="uid-f")
    status: dict[str, Any] = {"state": {"phase": phase}} if phase else {}
    return JobFlow(metadata, JobFlowSpec(made, policy), status)


def jobs(**phases: str) -> dict[str, Job]:
    return {
        f"f-{name}": Job(
            Metadata(name=f"f-{name}", namespace="ns", uid=f"uid-{name}"),
            status=JobStatus(JobState(phase)),
        )
        for name, phase in phases.items()
    }


ALL = {name: JobTemplate(spec={"queue": name}) for name in "abc"}


def run(observed: Observed) -> tuple[list[str], list[str], Any]:
    acts = [act for stage in reconcile(observed).stages for act in stage]
    created = [act.body["metadata"]["name"] for act in acts if isinstance(act, Create)]
    events = [act.reason for act in acts if isinstance(act, Emit)]
    states = [act.body["status"].get("state") for act in acts if isinstance(act, Patch)]
    # A phase that stays is not written again.
    phase = states[0]["phase"] if states and states[0] else observed.flow.phase if states else None
    return created, events, phase


def test_jobs_in_their_order() -> None:
    chain = flow(a=[], b=["a"], c=["a", "b"])
    assert run(Observed(chain, {}, ALL)) == (["f-a"], ["Created"], "Pending")
    assert run(Observed(chain, jobs(a="Running"), ALL)) == ([], [], "Running")
    assert run(Observed(chain, jobs(a="Completed"), ALL)) == (["f-b"], ["Created"], "Running")
    assert run(Observed(chain, jobs(a="Completed", b="Failed"), ALL))[::2] == ([], "Failed")
    ended = jobs(a="Completed", b="Completed", c="Completed")
    assert run(Observed(chain, ended, ALL)) == ([], [], "Succeed")


def test_a_completed_job_that_is_gone_stays_done() -> None:
    chain = flow("Running", a=[], b=["a"])
    chain.status["completedJobs"] = ["f-a"]
    assert run(Observed(chain, {}, ALL))[0] == ["f-b"]
    assert run(Observed(chain, jobs(b="Completed"), ALL))[2] == "Succeed"


def test_of_flows_with_one_name_the_first_counts() -> None:
    twice = flow(a=[], b=["a"])
    twice.spec.flows = [*(twice.spec.flows or ()), *(flow(a=["b"]).spec.flows or ())]
    assert run(Observed(twice, {}, ALL)) == (["f-a"], ["Created"], "Pending")
    ended = jobs(a="Completed", b="Completed")
    assert run(Observed(twice, ended, ALL))[2] == "Succeed"


def test_a_template_that_is_missing() -> None:
    assert run(Observed(flow(a=[]), {}, {})) == ([], ["MissingTemplate"], "Pending")


def test_a_circle_is_told_and_holds_up_nobody_else() -> None:
    circle = flow(a=[], b=["c"], c=["b"], d=["b"], e=["gone"])
    created, events, phase = run(Observed(circle, {}, ALL))
    assert (created, events, phase) == (["f-a"], ["Created", "DependencyCycle"], "Pending")
    assert never_ready(circle) == ["b", "c", "d", "e"]
    assert never_ready(flow(a=["a"])) == ["a"]
    # Work that grows with the square of their number would exceed the time limit of a test.
    targets: dict[str, Any] = {f"f{n}": [f"f{n + 1}"] for n in range(20_000)}
    chain = flow(**targets, f20000=[])
    assert never_ready(chain) == []
    # It is told once.
    assert run(Observed(flow("Pending", a=["a"]), {}, ALL))[1] == []


def test_the_end() -> None:
    failed = flow("Failed", a=[], b=[])
    assert run(Observed(failed, jobs(a="Failed"), ALL))[0] == []
    kept = flow("Succeed", "retain", a=[])
    assert run(Observed(kept, jobs(a="Completed"), ALL))[0] == []
    ((act,),) = reconcile(
        Observed(flow("Succeed", "delete", a=[]), jobs(a="Completed"), ALL)
    ).stages
    assert isinstance(act, Delete)
    assert reconcile(Observed(flow("Succeed", "delete", a=[]), {}, ALL)) == NOTHING


def test_patches_of_a_template() -> None:
    spec = {"queue": "a", "tasks": [{"name": "x", "replicas": 1, "template": {"spec": {"y": 1}}}]}
    patch = {
        "maxRetry": 1,
        "tasks": [{"name": "x", "template": {"spec": {"z": 2}}}, {"name": "new"}],
    }
    assert merged(spec, patch) == {
        "queue": "a",
        "maxRetry": 1,
        "tasks": [
            {"name": "x", "replicas": 1, "template": {"spec": {"y": 1, "z": 2}}},
            {"name": "new"},
        ],
    }


def test_long_names_are_not_labels() -> None:
    ((create, *_), _) = reconcile(Observed(flow(name="f" * 70, a=[]), {}, ALL)).stages
    assert isinstance(create, Create)
    metadata = create.body["metadata"]
    assert list(metadata["labels"]) == ["volcano.sh/createdByJobTemplate"]
    assert metadata["annotations"]["volcano.sh/createdByJobFlow"] == "ns." + "f" * 70


def test_a_template_lists_its_jobs() -> None:
    controller = JobTemplateController(ControllerOptions())
    metadata = Metadata(name="a", namespace="ns", uid="uid-a")
    held = JobTemplate(metadata, status=TemplateStatus(["f-a"]))
    assert controller.reconcile(ObservedTemplate(held, ("f-a",))) == NOTHING
    ((patch,),) = controller.reconcile(ObservedTemplate(held, ())).stages
    assert isinstance(patch, Patch)
    assert patch.body == {"status": {"jobDependsOnList": []}}


async def test_what_admission_changes_in_a_job_of_a_flow_counts(
    fake_api: FakeApi, loops: Loops
) -> None:
    def move(resource: str, body: Object) -> Object:
        return {**body, "spec": {**body["spec"], "queue": "other"}} if resource == JOBS else body

    fake_api.resources |= {FLOWS, TEMPLATES}
    fake_api.with_status |= {FLOWS, TEMPLATES}
    fake_api.admission = move
    for name in ("default", "other"):
        fake_api.put(QUEUES, {"metadata": {"name": name}, "spec": {}})
    options = ControllerOptions()
    loops.start(JobFlowController(options), JobController(options))
    metadata = {"name": "f", "namespace": "ns"}
    fake_api.put(FLOWS, {"metadata": metadata, "spec": {"flows": [{"name": "a"}]}})
    spec = {"queue": "default", "tasks": [task()]}
    fake_api.put(TEMPLATES, {"metadata": {"name": "a", "namespace": "ns"}, "spec": spec})
    await until(lambda: any(key[0] == GROUPS for key in fake_api.objects))
    (group,) = [body for key, body in fake_api.objects.items() if key[0] == GROUPS]
    assert group["spec"]["queue"] == "other"


async def test_a_flow_from_its_beginning_to_its_end(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.resources |= {FLOWS, TEMPLATES}
    fake_api.with_status |= {FLOWS, TEMPLATES}
    options = ControllerOptions()
    loops.start(JobFlowController(options), JobTemplateController(options))
    flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    fake_api.put(FLOWS, {"metadata": {"name": "f", "namespace": "ns"}, "spec": {"flows": flows}})
    for name in ("a", "b"):
        body = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"queue": name}}
        fake_api.put(TEMPLATES, body)
    for name in ("a", "b"):
        key = (JOBS, "ns", f"f-{name}")
        await until(lambda key=key: key in fake_api.objects)  # type: ignore[misc]
        made = fake_api.objects[key]
        assert made["spec"] == {"queue": name}
        fake_api.put(JOBS, {**made, "status": {"state": {"phase": "Completed"}}})
    await until(
        lambda: (
            fake_api.get(FLOWS, "ns", "f").get("status", {}).get("state") == {"phase": "Succeed"}
        )
    )
    await until(
        lambda: fake_api.get(TEMPLATES, "ns", "a").get("status") == {"jobDependsOnList": ["f-a"]}
    )
    writes = len(fake_api.made("PATCH", "jobflows"))
    loops.start(JobFlowController(options))
    await until(lambda: fake_api.open_watches >= 6)
    assert len(fake_api.made("PATCH", "jobflows")) == writes


def test_counts_that_are_gone_are_removed_from_the_status() -> None:
    """A merge of maps alone would keep them, and write them again for ever."""
    made = jobs(a="Running")
    chain = flow("Running", a=[])
    chain.status |= {"conditions": {"f-a": {"taskStatusCount": {"w": {"phase": {"Pending": 2}}}}}}
    made["f-a"].status.task_status_count = {"w": {"phase": {"Running": 2}}}
    ((act,),) = reconcile(Observed(chain, made, ALL)).stages
    assert isinstance(act, Patch)
    counts = act.body["status"]["conditions"]["f-a"]["taskStatusCount"]
    assert counts == {"w": {"phase": {"Pending": None, "Running": 2}}}
