"""The page about controllers and webhooks, command by command, where Volcano was installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controlplane.client import Client, Object, RefusedError
from tests.controlplane.manifests import DEPLOY, documents
from tests.e2e.console import scripts, steps
from tests.e2e.test_pages import (
    CREATE,
    NAMESPACE,
    Shell,
    admin,
    plane,
    shell,
    volcano,
    volcano_objects,
)

__all__ = ["admin", "plane", "shell", "volcano"]

PAGE = DEPLOY.parent / "docs" / "how-to" / "replace-the-controllers.md"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def webhook(kind: str, path: str) -> Object:
    """One of Volcano's webhooks; nobody answers it."""
    name = f"volcano-admission-service-{path.replace('/', '-')}"
    service = {"name": "volcano-admission-service", "namespace": NAMESPACE, "path": f"/{path}"}
    rule = {
        "apiGroups": ["batch.volcano.sh"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE"],
        "resources": ["jobs"],
    }
    hook = {
        "name": f"{path.replace('/', '')}.volcano.sh",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "rules": [rule],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [hook],
    }


def job(name: str, **more: Any) -> Object:
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": [{"name": "work", "replicas": 2, "template": template, **more}]},
    }


async def refusal(admin: Client, body: Object) -> str:
    try:
        await admin.create(body)
    except RefusedError as error:
        return str(error)
    return ""


async def test_each_name_of_the_controllers_is_its_own() -> None:
    """An applied object changes nothing that has another owner."""
    for path in (DEPLOY / "controllers").glob("*.yaml"):
        for body in documents(path):
            if body["kind"] != "Kustomization":
                assert body["metadata"]["name"].startswith("pumice-controllers")


@pytest.mark.timeout(400)
async def test_the_page_can_be_followed_where_volcano_was(volcano: Shell, admin: Client) -> None:
    (edit,) = scripts(PAGE)
    assert await volcano.run(edit) == (0, "")
    # What the page about the scheduler has created before.
    await volcano.run(CREATE)
    await admin.merge(f"{QUEUES}/default/status", {"status": {"state": "Open"}})
    for kind, path in (("Mutating", "jobs/mutate"), ("Validating", "jobs/validate")):
        body = webhook(f"{kind}WebhookConfiguration", path)
        await admin.call("POST", f"{HOOKS}/{kind.lower()}webhookconfigurations", body)
    typed = steps(PAGE)
    assert len(typed) == 12
    for step in typed:
        await volcano.type(step)
        if step.command == "kubectl apply -k deploy/controllers":
            _, shown = await volcano.run(f"kubectl -n {NAMESPACE} get deployment -o yaml")
            assert "image: registry.example.com/pumice:0.1.0" in shown
        if step.command.startswith("kubectl get lease"):
            assert "webhook" in await refusal(admin, job("one"))
        if step.command.endswith("volcano-admission --replicas=0"):
            await check_admission_and_controllers(admin)
    left = await admin.list(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
    names = {body["metadata"]["name"] for body in volcano_objects() if body["kind"] == "Deployment"}
    assert {one["metadata"]["name"]: one["spec"]["replicas"] for one in left} == dict.fromkeys(
        names, 1
    )
    for kind in ("validatingadmissionpolicies", "mutatingadmissionpolicies"):
        assert await admin.list(f"{HOOKS}/{kind}") == []
    # The Job stays, whoever controls it.
    assert (await admin.get(f"{JOBS}/two"))["status"]["state"]["phase"] == "Pending"


async def check_admission_and_controllers(admin: Client) -> None:
    """Policies refuse and fill in, and a Job gets its PodGroup."""
    async with asyncio.timeout(60):
        while "minAvailable" not in await refusal(admin, job("bad", minAvailable=3)):
            # The API server has not read the policies yet.
            await admin.delete(f"{JOBS}/bad")
    await admin.create(job("two"))
    assert (await admin.get(f"{JOBS}/two"))["spec"]["schedulerName"] == "volcano"
    async with asyncio.timeout(60):
        while not await admin.list(GROUPS):
            await asyncio.sleep(0.1)
