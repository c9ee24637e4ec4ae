"""``pumice schedule`` and ``pumice explain -f``: the answer of the core, as a user sees it."""

import json
from pathlib import Path
from typing import Any

import pytest

from pumice.client import AsyncClient, ClientSettings
from tests.cli.commands import pumice
from tests.cli.test_queries import CONTAINER, NODE, Run, ask, core, job, socket_folder, written
from tests.server import running
from tests.server.running import RunningCore

__all__ = ["ask", "core", "socket_folder"]


async def test_pods_that_no_session_looks_at_are_said_to_wait(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])

    def pod(**spec: Any) -> dict[str, Any]:
        metadata = {"name": "one", "namespace": "team"}
        held = {"containers": [CONTAINER], "schedulerName": "volcano", **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": held}

    lost = pod()
    lost["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "none"}
    for manifest, why in (
        (lost, "team/none: the PodGroup is neither in the request nor in the cluster"),
        (pod(schedulerName="other"), "belong to another scheduler (other)"),
        (pod(schedulingGates=[{"name": "example.com/g"}]), "gate (example.com/g)"),
    ):
        file = written(tmp_path, manifest)
        ended = await ask("schedule", "-f", file)
        assert ended.code == 1, ended
        assert why in " ".join(ended.out.split())
        told = json.loads((await ask("schedule", "-f", file, "--json")).out)
        assert why in told["jobs"][0]["sentence"]


async def test_pods_of_another_scheduler_are_tried_with_a_warning(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [CONTAINER]}}},
    }
    ended = await ask("schedule", "-f", written(tmp_path, deployment))
    assert ended.code == 0
    assert "Deployment team/web: spec.template.spec.schedulerName: is missing" in ended.err
    named = job(1)
    assert (await ask("schedule", "-f", written(tmp_path, named))).err == ""


async def test_jobs_that_are_there_are_told_from_those_asked_about(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    # The live one waits for the next session, which does not come while the clock stands still.
    adapter = await core.served([running.queue(), running.node("n1")])
    await core.session(1)
    await adapter.tell(*running.gang("already", 1))
    own = await ask("schedule", "-f", written(tmp_path, job(1)))
    assert "team/already" not in own.out
    ended = await ask("schedule", "-f", written(tmp_path, job(1)), "--others")
    rows = [line.split() for line in ended.out.splitlines() if line.startswith("team/")]
    assert [row[0] for row in rows] == ["team/train", "team/already"]
    assert "team/already (in the cluster)" in ended.out


def test_files_without_nodes_are_noticed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended = pumice(capsys, "schedule", "--inline", "-f", written(tmp_path, job(1)))
    assert ended.code == 1
    assert "the request contains no Node" in ended.err


async def test_a_mistake_that_many_pods_share_is_told_once(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])
    absurd = job(9)
    template = absurd["spec"]["tasks"][0]["template"]["spec"]
    requests = {"cpu": "1", "memory": "100Ei"}
    template["containers"] = [{**CONTAINER, "resources": {"requests": requests}}]
    ended = await ask("schedule", "-f", written(tmp_path, absurd))
    assert ended.code == 2
    assert ended.err.count("spec.requests[memory]") == 1
    assert "(and 8 more objects)" in ended.err


async def test_the_command_prints_what_the_client_library_returns(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1"), *running.gang("other", 9)])
    await core.session(1)
    file = written(tmp_path, job(9), {"apiVersion": "v1", "kind": "ConfigMap"})
    ended = await ask("schedule", file, "--json")
    assert ended.code == 1
    async with AsyncClient(ClientSettings(address=core.server.address)) as client:
        answer = (await client.schedule(file)).to_dict()
    shown = json.loads(ended.out)
    for timed in ("request_id", "sessions"):
        answer.pop(timed), shown.pop(timed)
    assert shown == answer


async def test_a_wrong_manifest_ends_with_two_and_the_rest_is_shown(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])
    wrong = job(2)
    wrong["metadata"]["name"] = "wrong"
    wrong["spec"]["tasks"][0]["template"]["spec"]["containers"] = [
        {**CONTAINER, "resources": {"requests": {"cpu": "four"}}}
    ]
    ended = await ask("schedule", written(tmp_path, wrong, job(1)))
    assert ended.code == 2
    assert "Job team/wrong: spec.tasks[0].template.spec.containers[0].resources" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "team/train" in ended.out


async def test_an_object_is_removed_first(core: RunningCore, ask: Run, tmp_path: Path) -> None:
    await core.served([running.queue(), running.node("n1"), running.node("n2")])
    file = written(tmp_path, job(2))
    ended = await ask("schedule", file, "--remove", "node/n1")
    assert "n2 x2" in ended.out
    wrong = await ask("schedule", file, "--remove", "n1")
    assert (wrong.code, "names no kind" in wrong.err) == (2, True)
    both = await ask("schedule", "--inline", file, "--remove", "node/n1")
    assert (both.code, "--remove needs a core" in both.err) == (2, True)


async def test_a_job_that_is_not_there_yet_is_explained(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])
    file = written(tmp_path, job(9))
    ended = await ask("explain", "job", "team/train", "-f", file)
    assert ended.code == 0, ended
    assert ended.out.startswith("team/train waits")
    assert "hypothetical, seq" in ended.out
    unknown = await ask("explain", "job", "team/other", "-f", file)
    assert (unknown.code, "neither in the request nor in the cluster" in unknown.err) == (2, True)


def test_a_queue_without_a_state_is_open(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "own"},
    }
    in_queue = job(2)
    in_queue["spec"]["queue"] = "own"
    file = written(tmp_path, NODE, queue, in_queue)
    ended = pumice(capsys, "schedule", "--inline", file, "--json")
    assert (ended.code, len(json.loads(ended.out)["binds"])) == (0, 2)


@pytest.mark.parametrize("option", ["--eta", "--others"])
def test_what_needs_a_core_is_refused_with_inline(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str
) -> None:
    file = tmp_path / "gang.yaml"
    file.write_text("kind: Pod\n")
    ended = pumice(capsys, "schedule", "--inline", option, "-f", file)
    assert (ended.code, f"{option} needs a core" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--nearest", "3"), "--nearest cannot be used with"),
        (("--eta",), "--eta needs an existing job"),
    ],
)
def test_options_of_live_explanations_are_refused_with_a_manifest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    file = tmp_path / "gang.yaml"
    file.write_text("kind: Pod\n")
    ended = pumice(capsys, "explain", "job", "team/job", "-f", file, *options)
    assert (ended.code, problem in ended.err) == (2, True)
