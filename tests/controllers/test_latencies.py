"""Times from the creation of a Job to its pods and to Running."""

from pumice.controllers.job.controller import JobController
from pumice.controllers.options import ControllerOptions
from pumice.controllers.volcano_metrics import POD_CREATION, JobLatencies
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.jobs import JOBS, NAMESPACE, FakeCluster, job
from tests.controllers.running import Loops


def sums(loops: Loops, name: str) -> tuple[float, float]:
    """Count and sum of a histogram."""
    samples = {
        sample.name: sample.value
        for family in loops.metrics.registry.collect()
        for sample in family.samples
        if not sample.labels
    }
    return samples.get(f"{name}_count", 0), samples.get(f"{name}_sum", 0)


async def test_a_jobs_way_to_running_is_measured_once(fake_api: FakeApi, loops: Loops) -> None:
    cluster = FakeCluster(fake_api)
    loop = loops.start(JobController(ControllerOptions()))
    latencies = JobLatencies(loop, loops.metrics, loops.metrics.registry)
    # The fake API server sets no times.
    at = {"creationTimestamp": "2026-01-01T00:00:03Z"}
    loop.on_created(lambda body, metadata: latencies.on_created(body, {**metadata, **at}))
    fake_api.put(JOBS, job())
    await until(lambda: cluster.groups() != [])
    cluster.admit()
    await until(lambda: len(cluster.pods()) == 2)
    cluster.run()
    await until(lambda: cluster.phase() == "Running")
    await until(lambda: sums(loops, "pumice_controllers_job_start_duration_seconds")[0] == 1)
    assert sums(loops, POD_CREATION) == (2, 6000.0)
    # A job that was restarted is not measured again.
    cluster.command("RestartJob")
    await until(lambda: cluster.status().get("version") == 1)
    while cluster.phase() != "Running":
        before = fake_api.version
        cluster.step()
        await until(lambda: fake_api.version > before or cluster.phase() == "Running")  # noqa: B023
    assert sums(loops, "pumice_controllers_job_start_duration_seconds")[0] == 1


async def test_other_objects_are_not_measured(fake_api: FakeApi, loops: Loops) -> None:
    loop = loops.start(JobController(ControllerOptions()))
    latencies = JobLatencies(loop, loops.metrics, loops.metrics.registry)
    metadata = {"namespace": NAMESPACE, "creationTimestamp": "2026-01-01T00:00:03Z"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job"}
    for body in (
        {"kind": "PodGroup", "metadata": {}},
        {"kind": "Pod", "metadata": {}},
        {"kind": "Pod", "metadata": {"ownerReferences": [owner]}},
        {
            "kind": "Pod",
            "metadata": {
                "ownerReferences": [{**owner, "apiVersion": "batch.volcano.sh/v1alpha1"}],
            },
        },
    ):
        latencies.on_created(body, metadata)
    assert sums(loops, POD_CREATION) == (0, 0)
