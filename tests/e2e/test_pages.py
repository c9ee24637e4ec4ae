"""The pages about clusters, command by command: kubectl, a real API server, Volcano's objects."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.controlplane import binaries
from tests.controlplane.client import Client, Object, path_of
from tests.controlplane.credentials import ADAPTER, ADMIN, CONTROLLERS, NOBODY
from tests.controlplane.deployments import Deployments
from tests.controlplane.kubelet import Kubelets
from tests.controlplane.manifests import CRDS, DEPLOY, documents, served
from tests.controlplane.processes import ControlPlane, running
from tests.e2e.console import Step, scripts, steps
from tests.e2e.objects import node_body, queue_body

PAGE = DEPLOY.parent / "docs" / "how-to" / "run-on-a-cluster.md"
SHADOW_PAGE = PAGE.with_name("try-it-beside-volcano.md")
NAMESPACE = "volcano-system"
# Volcano 1.10 does not have these yet.
NEWER = ("hypernodes", "nodeshards")
CONF = 'actions: "enqueue, allocate, preempt, backfill"\ntiers:\n- plugins:\n  - name: gang\n'
CREATE = "kubectl create -f deploy/crds -f deploy/defaults"
_COMMAND_SECONDS = 200
EXEC = re.compile(rf"kubectl -n {NAMESPACE} exec \$leader -c core -- pumice (.*)")


def volcano_definitions() -> list[Object]:
    """Definitions that are not those of deploy/: with descriptions, as Volcano ships them."""
    found = []
    for path in CRDS:
        for body in documents(path):
            if body["spec"]["names"]["plural"] not in NEWER:
                schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                schema["description"] = "as Volcano describes it"
                found.append(body)
    return found


def volcano_objects() -> list[Object]:
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": NAMESPACE},
        "data": {"volcano-scheduler.conf": CONF},
    }
    names = ("volcano-admission", "volcano-controllers", "volcano-scheduler")
    return [configuration, queue_body("default", weight=7), *map(deployment, names)]


def deployment(name: str) -> Object:
    # The chart labels the pods of volcano-controllers without the s.
    labels = {"app": name.removesuffix("s")}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": name}]},
            },
        },
    }


@dataclass(slots=True)
class Shell:
    """A person's shell in a copy of the repository: kubectl, and the cores of the cluster."""

    folder: Path
    environment: dict[str, str]
    deployments: Deployments | None = None
    # Variables that were set so far.
    assignments: str = ""

    async def run(self, command: str, **more: str) -> tuple[int, str]:
        done = await asyncio.create_subprocess_exec(
            *("/bin/bash", "-c", f"{self.assignments}{command}"),
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(done.communicate(), _COMMAND_SECONDS)
        assert done.returncode is not None
        return done.returncode, output.decode()

    async def type(self, step: Step) -> None:
        """Runs a command of the page; its output has what the page shows."""
        if re.match(r"\w+=", step.command):
            self.assignments += f"{step.command}\n"
        asked = EXEC.fullmatch(step.command)
        # A container's own command needs a kubelet; here it is run beside the container.
        code, output = await (self.ask_a_core(asked[1]) if asked else self.run(step.command))
        expected = 1 if any(line.startswith("Error") for line in step.shown) else 0
        told = self.deployments.logs() if self.deployments else ""
        assert code == expected, f"$ {step.command}\n{output}\n{told}"
        assert step.missing(output) == [], f"$ {step.command}\n{output}"

    async def ask_a_core(self, command: str) -> tuple[int, str]:
        """The core of the pod that leads is the one that has an answer."""
        assert self.deployments is not None
        result = 1, "no core runs"
        for pod in self.deployments.pods.get("pumice-scheduler", []):
            result = await self.run(f"pumice {command}", PUMICE_ADDRESS=pod.core_address)
            if result[0] == 0:
                break
        return result


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    reason = binaries.why_not()
    if reason is not None:
        pytest.skip(reason)
    with TemporaryDirectory(prefix="pumice") as folder, running(Path(folder)) as plane:
        yield plane


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(plane.server, plane.credentials) as client:
        yield client


@pytest.fixture
def shell(plane: ControlPlane, tmp_path: Path) -> Shell:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    kubectl = binaries.build(binaries.KUBECTL)
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "pumice").symlink_to(Path(sys.executable).parent / "pumice")
    kubeconfig = plane.credentials.kubeconfig(plane.server, ADMIN)
    path = f"{kubectl.parent}:{commands}:{os.environ['PATH']}"
    environment = {"PATH": path, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
    return Shell(tmp_path, environment)


@pytest.fixture
async def volcano(plane: ControlPlane, admin: Client, shell: Shell) -> AsyncIterator[Shell]:
    """A cluster as Volcano left it, with nodes and a Deployment controller."""
    (namespace,) = documents(DEPLOY / "defaults" / "namespace.yaml")
    await admin.create(namespace)
    for body in volcano_definitions():
        await admin.create(body)
        await served(admin, body)
    for body in [node_body("node-0000"), node_body("node-0001"), *volcano_objects()]:
        await admin.create(body)
    kubelets = Kubelets(admin)
    kubelets.start()
    kubeconfigs = {
        user.rpartition(":")[2]: plane.credentials.kubeconfig(plane.server, user)
        for user in (ADAPTER, CONTROLLERS)
    }
    with TemporaryDirectory(prefix="pumice") as folder:
        shell.deployments = Deployments(admin, NAMESPACE, Path(folder), kubeconfigs)
        shell.deployments.start()
        yield shell
        await shell.deployments.stop()
    await kubelets.stop()


async def content_of(admin: Client, body: Object) -> dict[str, Any]:
    """All of an object but what its own controllers and the scheduler write."""
    found: Object = await admin.get(path_of(body))
    del found["metadata"]["managedFields"], found["metadata"]["resourceVersion"]
    return {key: part for key, part in found.items() if key != "status"}


async def everything(admin: Client) -> list[dict[str, Any]]:
    bodies = [*volcano_definitions(), *volcano_objects()]
    return [
        await content_of(admin, body)
        for body in bodies
        # The page stops and starts this one.
        if body["metadata"]["name"] != "volcano-scheduler"
    ]


@pytest.mark.timeout(400)
async def test_the_page_can_be_followed_beside_volcano(volcano: Shell, admin: Client) -> None:
    before = await everything(admin)
    (edit,) = [line for line in scripts(PAGE) if line.startswith("sed ")]
    assert await volcano.run(edit) == (0, "")
    typed = steps(PAGE)
    assert len(typed) > 15
    for step in typed:
        await volcano.type(step)
        if step.command == "kubectl apply -k deploy/scheduler":
            _, shown = await volcano.run(f"kubectl -n {NAMESPACE} get deployment -o yaml")
            assert "image: registry.example.com/pumice:0.1.0" in shown
    assert await everything(admin) == before
    left = await admin.list(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
    assert {one["metadata"]["name"]: one["spec"]["replicas"] for one in left} == {
        "volcano-admission": 1,
        "volcano-controllers": 1,
        "volcano-scheduler": 1,
    }


async def test_a_shadow_gets_its_rights_and_its_configuration(
    plane: ControlPlane, volcano: Shell
) -> None:
    """The commands of the page about shadows, up to the one that starts it."""
    typed = [step for step in steps(SHADOW_PAGE) if step.command.startswith("kubectl ")]
    assert len(typed) == 3
    for step in typed:
        await volcano.type(Step(step.command.replace("YOU", NOBODY)))
    assert (volcano.folder / "volcano-scheduler.conf").read_text() == CONF
    kubeconfig = str(plane.credentials.kubeconfig(plane.server, NOBODY))
    for question, code in (("list pods", 0), ("watch podgroups", 0), ("create pods/binding", 1)):
        asked = f"kubectl auth can-i {question} --all-namespaces"
        assert (await volcano.run(asked, KUBECONFIG=kubeconfig))[0] == code, question


async def test_on_an_empty_cluster_all_that_is_missing_is_created(
    shell: Shell, admin: Client
) -> None:
    assert CREATE in [step.command for step in steps(PAGE)]
    code, output = await shell.run(f"{CREATE} && kubectl apply -k deploy/scheduler")
    assert code == 0, output
    for path in CRDS:
        assert path.stem in output
    found = await admin.get(
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/volcano-scheduler-configmap"
    )
    assert "actions" in found["data"]["volcano-scheduler.conf"]


async def test_each_name_of_the_scheduler_is_its_own() -> None:
    """An applied object changes nothing that has another owner."""
    for path in (DEPLOY / "scheduler").glob("*.yaml"):
        for body in documents(path):
            if body["kind"] != "Kustomization":
                assert body["metadata"]["name"].startswith("pumice-")
