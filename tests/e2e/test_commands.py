"""The commands that users of vcctl type, on a real API server."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.commands import Ended, pumice
from tests.e2e.cluster import GROUPS, Cluster
from tests.e2e.objects import NAMESPACE, pod_group_body

JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
FLOWS = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobflows"
TEMPLATES = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobtemplates"
BUS = "/apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands"


class Shell:
    """Types commands for one cluster."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._kubeconfig = cluster.kubeconfig("admin")
        self._capsys = capsys

    async def types(self, *words: object, program: str = "pumice") -> Ended:
        return await asyncio.to_thread(
            pumice, self._capsys, *words, "--kubeconfig", self._kubeconfig, program=program
        )

    async def does(self, *words: object, program: str = "pumice") -> str:
        ended = await self.types(*words, program=program)
        assert (ended.code, ended.err) == (0, "")
        return ended.out


@pytest.fixture
def shell(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cluster, capsys)


async def test_a_script_with_volcanos_short_commands(
    cluster: Cluster, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLCANO_DEFAULT_JOB_NAMESPACE", NAMESPACE)
    monkeypatch.setenv("VOLCANO_DEFAULT_IMAGE", "work")
    monkeypatch.setenv("VOLCANO_SCHEDULER_NAME", "other")
    made = await shell.does("-n", "one", "-r", 2, program="vsub")
    assert made == "run job one successfully\n"
    job = await cluster.client.get(f"{JOBS}/one")
    assert job["spec"]["schedulerName"] == "other"
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert container["image"] == "work"
    await shell.does("-n", "two", "-i", "own", "-S", "volcano", program="vsub")
    at = ("-N", NAMESPACE)
    listed = await shell.does(*at, "-S", "volcano", program="vjobs")
    assert [line.split()[0] for line in listed.splitlines()] == ["Name", "two"]
    assert "one" in await shell.does(*at, "-n", "one", program="vjobs")
    await shell.does(*at, "-n", "one", program="vsuspend")
    await shell.does(*at, "-n", "one", program="vresume")
    commands = await cluster.client.list(BUS.format(NAMESPACE))
    assert sorted(one["action"] for one in commands) == ["AbortJob", "ResumeJob"]
    await cluster.client.call("DELETE", BUS.format(NAMESPACE))
    for name in ("one", "two"):
        ended = await shell.does(*at, "-n", name, program="vcancel")
        assert ended == f"cancel job {name} successfully\n"
    # The variables are those of vsub only.
    assert await shell.does("job", "list", program="vcctl") == "No resources found\n"
    await cluster.add_queue("red")
    assert "red" in await shell.does(program="vqueues")
    (row,) = (await shell.does("-n", "red", program="vqueues")).splitlines()[1:]
    assert row.split()[0] == "red"


async def test_the_life_of_a_job(cluster: Cluster, shell: Shell, tmp_path: Path) -> None:
    at = ("-n", NAMESPACE)
    assert await shell.does("job", "list", *at) == "No resources found\n"
    made = await shell.does("job", "run", *at, "-N", "one", "-r", 3, "-m", 2, "-R", "cpu=1")
    assert made == "run job one successfully\n"
    path = f"{JOBS}/one"
    job = await cluster.client.get(path)
    assert job["spec"]["tasks"][0]["replicas"] == 3
    status = {"state": {"phase": "Running"}, "minAvailable": 2, "running": 3}
    await cluster.client.merge(f"{path}/status", {"status": status})
    header, row = (await shell.does("job", "list", *at)).splitlines()
    assert header == (
        "Name   Creation       Phase       JobType     Replicas    Min   Pending   Running   "
        "Succeeded   Failed    Unknown     RetryCount"
    )
    assert row == (
        f"one    {job['metadata']['creationTimestamp'][:10]}     Running     Batch       3           "
        "2     0         3         0           0         0           0         "
    )
    everywhere = await shell.does("job", "list", "--all-namespaces", "--selector", "on")
    assert everywhere.splitlines()[1].split()[:2] == [NAMESPACE, "one"]
    assert await shell.does("job", "list", *at, "-q", "other") == "No resources found\n"
    shown = await shell.does("job", "view", *at, "-N", "one")
    assert "  Running:      \t3\n" in shown
    assert "Events: \t<none>" in shown
    assert await shell.does("job", "suspend", *at, "-N", "one") == ""
    (command,) = await cluster.client.list(BUS.format(NAMESPACE))
    assert command["metadata"]["name"].startswith("one-abortjob-")
    assert (command["action"], command["target"]["uid"]) == ("AbortJob", job["metadata"]["uid"])
    await shell.does("job", "resume", *at, "-N", "one")
    await cluster.client.call("DELETE", BUS.format(NAMESPACE))
    assert await shell.does("job", "delete", *at, "-N", "one") == "delete job one successfully\n"
    ended = await shell.types("job", "delete", *at, "-N", "one")
    assert (ended.code, ended.err) == (1, f"pumice: Job {NAMESPACE}/one does not exist\n")


async def test_a_job_from_a_file(cluster: Cluster, shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: two}\n"
        "spec: {tasks: [{replicas: 1, template: {spec: {containers: [{name: a, image: b}]}}}]}\n"
    )
    await shell.does("job", "run", "-n", NAMESPACE, "-f", path)
    await cluster.client.delete(f"{JOBS}/two")
    ended = await shell.types("job", "run", "-f", tmp_path / "none.yaml")
    assert ended.code == 2
    assert "No such file" in ended.err
    assert (await shell.types("job", "run")).code == 2


async def test_queues(cluster: Cluster, shell: Shell) -> None:
    assert await shell.does("queue", "create", "-n", "red", "-w", 3) == ""
    await cluster.client.create(
        {**pod_group_body("one", 1, "red", ""), "status": {"phase": "Inqueue"}}
    )
    header, row = (await shell.does("queue", "get", "-n", "red")).splitlines()
    assert header == (
        "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed"
    )
    assert row == (
        "red                      3                       1       0       0       0       0       "
    )
    await shell.does("queue", "operate", "-n", "red", "-a", "update", "-w", 7)
    assert (await cluster.client.get(f"{GROUPS}/queues/red"))["spec"]["weight"] == 7
    closed = await shell.types("queue", "operate", "-n", "red", "-a", "close", "-w", 1)
    assert closed == Ended(0, "", "pumice: --weight has no effect with --action close\n")
    (command,) = await cluster.client.list(BUS.format("default"))
    assert (command["action"], command["target"]["name"]) == ("CloseQueue", "red")
    await cluster.client.call("DELETE", BUS.format("default"))
    assert (await shell.types("queue", "operate", "-n", "red", "-a", "update")).code == 2
    assert "red" in await shell.does("queue", "list")
    assert await shell.does("queue", "delete", "-n", "red") == ""
    ended = await shell.types("queue", "get", "-n", "red")
    assert ended.err == "pumice: Queue red does not exist\n"


async def test_requests_are_shown_at_a_high_verbosity(cluster: Cluster, shell: Shell) -> None:
    path = f"{GROUPS}/queues"
    shown = await shell.types("queue", "list", "-v", 6)
    assert shown.err.splitlines()[0] == f"GET {path}"
    assert shown.out == await shell.does("queue", "list", "--v=5")
    gone = await shell.types("queue", "delete", "-n", "nothing", "-v=9", "--vmodule", "a=1")
    assert gone.err.splitlines() == [
        "pumice: --vmodule has no effect: the log goes to standard error at once",
        f"DELETE {path}/nothing",
        "pumice: Queue nothing does not exist",
    ]
    assert (await shell.types("queue", "list", "-v", "much")).code == 2
    for words in (("-v", 6, "queue", "list"), ("queue", "--v=6", "list")):
        assert await shell.types(*words) == shown


async def test_flows_and_templates(cluster: Cluster, shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(
        "".join(
            f"kind: JobFlow\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\n"
            "spec: {flows: [{name: a}]}\n---\n"
            for name in ("one", "two")
        )
    )
    created = await shell.does("jobflow", "create", "-f", path)
    assert created == f"Created JobFlow: {NAMESPACE}/one\nCreated JobFlow: {NAMESPACE}/two\n"
    ended = await shell.types("jobflow", "create", "-f", path)
    assert ended.code == 1
    assert ended.err.count("already exists") == 2
    header, *rows = (await shell.does("jobflow", "list", "-n", NAMESPACE)).splitlines()
    assert header.split() == ["Name", "Namespace", "Phase", "Age"]
    assert [row.split()[0] for row in rows] == ["one", "two"]
    text = await shell.does("jobflow", "describe", "-n", NAMESPACE, "-N", "one", "-o", "json")
    assert '"kind": "JobFlow"' in text
    assert "managedFields" not in text
    await shell.does("jobflow", "delete", "-f", path)
    assert await cluster.client.list(FLOWS) == []
    path.write_text(path.read_text().replace("JobFlow", "JobTemplate").split("---")[0])
    await shell.does("jobtemplate", "create", "-f", path)
    shown = await shell.does("jobtemplate", "get", "-n", NAMESPACE, "-N", "one")
    assert shown.splitlines()[0].split() == ["Name", "Namespace"]
    deleted = await shell.does("jobtemplate", "delete", "-n", NAMESPACE, "-N", "one")
    assert deleted == f"Deleted JobTemplate: {NAMESPACE}/one\n"
    assert await cluster.client.list(TEMPLATES) == []


async def test_pods_and_groups(cluster: Cluster, shell: Shell) -> None:
    await cluster.add_gang("one", 2)
    at = ("-n", NAMESPACE)
    header, row = (await shell.does("podgroup", "list", *at)).splitlines()
    assert header.split()[:4] == ["Name", "Queue", "Phase", "MinMember"]
    assert row.split()[:2] == ["one", "default"]
    assert await shell.does("pod", "list", *at) == "No resources found\n"
    labels = {"metadata": {"labels": {"volcano.sh/job-name": "one", "volcano.sh/queue-name": "q"}}}
    for pod in await cluster.pods():
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
        await cluster.client.merge(path, labels)
    lines = (await shell.does("pod", "list", *at, "-j", "one", "-q", "q")).splitlines()
    assert lines[0].split() == ["Name", "Ready", "Status", "Restart", "Age"]
    assert [line.split()[1:4] for line in lines[1:]] == [["0/1", "Pending", "0"]] * 2
    ended = await shell.types("pod", "list", *at, "-j", "one", "-q", "other")
    assert ended.err == "pumice: job one is not in queue other\n"
    await shell.does("podgroup", "delete", *at, "-N", "one")
