"""The admission policies of deploy/, case by case on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.client import JSON_PATCH, MERGE, Client, Object, RefusedError, path_of
from tests.controlplane.manifests import ADMISSION, apply_all, documents
from tests.controlplane.processes import ControlPlane, running
from tests.e2e.admission_cases import (
    JOB,
    NAMESPACE,
    PARTITIONS,
    REFUSED,
    REWRITES,
    TAKEN,
    UPDATES,
    group,
    hierarchy,
    job,
    pod,
    queue,
    task,
    thing,
)
from tests.e2e.cluster import GROUPS


@pytest.fixture(scope="module")
def guarded_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: the policies refuse what other tests create."""
    with running(tmp_path_factory.mktemp("guarded")) as plane:
        yield plane


@pytest.fixture
async def client(guarded_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(guarded_plane.server, guarded_plane.credentials) as client:
        if await client.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
            await _prepare(client)
        yield client


async def _prepare(client: Client) -> None:
    await apply_all(client)
    for name in ("root", "default", "fresh", "closed", "closing"):
        await client.apply(queue(name))
    await client.apply(queue("parent", capability={"cpu": 8}, deserved={"cpu": 4}))
    await client.apply(queue("child", parent="parent"))
    await client.apply(queue("leaf", annotations=hierarchy("root/tree/leaf", "1/1/1")))
    for name, state in (("default", "Open"), ("closed", "Closed"), ("closing", "Closing")):
        await client.merge(f"{GROUPS}/queues/{name}/status", {"status": {"state": state}})
    for path in ADMISSION:
        for document in documents(path):
            await client.apply(document)
    notes = {"scheduling.volcano.sh/queue-name": "fresh"}
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "annotations": notes},
    }
    await client.apply(body)
    await _in_effect(client)


async def _in_effect(client: Client) -> None:
    """Waits until the API server has read the policies, the queues and the namespace."""
    async with asyncio.timeout(60):
        for body, text in REFUSED.values():
            while text not in await _said(_try(client, body)):
                await asyncio.sleep(0.05)
        for field, body in (("schedulerName", TAKEN["a job"]), ("queue", TAKEN["a PodGroup"])):
            while field not in await _defaulted(client, body):
                await asyncio.sleep(0.05)


async def _defaulted(client: Client, body: Object) -> set[str]:
    """Fields of the spec that have another value than in the definition."""
    try:
        spec = (await _try(client, body))["spec"]
    except RefusedError:
        return set()
    return {name for name, value in spec.items() if name not in body["spec"] and value != "default"}


async def _try(client: Client, body: Object) -> Object:
    path = path_of(body).rpartition("/")[0]
    made: Object = await client.call("POST", path, body, query={"dryRun": "All"})
    return made


async def _said(call: Awaitable[object]) -> str:
    """What a refusal says; "" when nothing was refused."""
    try:
        await call
    except RefusedError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("case", TAKEN)
async def test_what_is_right_is_taken(client: Client, case: str) -> None:
    await _try(client, TAKEN[case])


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_wrong_is_refused(client: Client, case: str) -> None:
    body, text = REFUSED[case]
    with pytest.raises(RefusedError) as refused:
        await _try(client, body)
    assert text in str(refused.value)


@pytest.mark.parametrize("case", UPDATES)
async def test_changes_of_a_job(client: Client, case: str) -> None:
    spec, text = UPDATES[case]
    path = path_of(job())
    if await client.find(path) is None:
        await client.create(job())
    said = await _said(
        client.call("PATCH", path, {"spec": spec}, content_type=MERGE, query={"dryRun": "All"})
    )
    assert text in said if text else not said


@pytest.mark.parametrize("case", REWRITES)
async def test_a_job_that_means_the_same_is_no_change(client: Client, case: str) -> None:
    before, after, text = REWRITES[case]
    name = "rewritten-" + case.replace(" ", "-")
    held = await client.create(job(name=name, **before))
    body = {**held, "spec": {**held["spec"], **after}}
    said = await _said(client.call("PUT", path_of(held), body, query={"dryRun": "All"}))
    assert text in said if text else not said, said


def as_go_writes_it(name: str, replicas: int) -> Object:
    """A Job as a client in Go sends it: nulls and empty structures, and no zeros."""
    container = {"name": "nginx", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}
    pod_spec = {"containers": [container], "restartPolicy": "OnFailure"}
    template = {"metadata": {"creationTimestamp": None, "name": "w"}, "spec": pod_spec}
    work: Object = {"name": "w", "template": template}
    spec: Object = {"schedulerName": "volcano", "tasks": [work], "plugins": {"svc": []}}
    if replicas:
        work["replicas"] = spec["minAvailable"] = replicas
    status = {"state": {"lastTransitionTime": None}, "terminating": 0}
    made = thing(JOB, "Job", name, spec, creationTimestamp=None)
    return {**made, "status": status}


async def test_a_job_of_a_client_in_go_scales_to_zero_and_back(client: Client) -> None:
    path = path_of(as_go_writes_it("typed", 2))
    made = await client.create(as_go_writes_it("typed", 2))
    for replicas in (4, 0, 2):
        spec = as_go_writes_it("typed", replicas)["spec"]
        # The client sends back what it was given, with other numbers.
        spec["maxRetry"] = made["spec"]["maxRetry"]
        spec["queue"] = made["spec"]["queue"]
        held = {k: v for k, v in made["spec"]["tasks"][0].items() if k != "replicas"}
        spec["tasks"] = [{**held, **spec["tasks"][0], "minAvailable": replicas}]
        patch = [{"op": "replace", "path": "/spec", "value": spec}]
        changed = await client.call("PATCH", path, patch, content_type=JSON_PATCH)
        assert changed["spec"]["tasks"][0].get("replicas", 0) == replicas
    await client.delete(path)


async def test_a_changed_job_keeps_the_defaults_that_the_change_leaves_out(client: Client) -> None:
    unnamed = task(pod={"hostNetwork": True})
    del unnamed["name"]
    body = job(unnamed, task("master"), name="applied", plugins={"mpi": []})
    made = await client.create(body)
    unnamed["replicas"] = 3
    spec = {**body["spec"], "minAvailable": 4}
    # As `kubectl replace` sends it.
    made["spec"] = spec
    changed = (await client.call("PUT", path_of(body), made))["spec"]
    first, second = changed["tasks"]
    assert (first["name"], first["replicas"], first["minAvailable"]) == ("default0", 3, 3)
    assert (first["maxRetry"], second["maxRetry"]) == (3, 3)
    assert first["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert set(changed["plugins"]) == {"mpi", "svc", "ssh"}
    await client.delete(path_of(body))


@pytest.mark.parametrize(
    ("name", "text"),
    [("root", "cannot be deleted"), ("default", "cannot be deleted"), ("parent", "such as child"),
     ("child", ""), ("leaf", "")],
)  # fmt: skip
async def test_queues_that_are_needed_stay(client: Client, name: str, text: str) -> None:
    path = f"{GROUPS}/queues/{name}"
    said = await _said(client.call("DELETE", path, query={"dryRun": "All"}))
    assert text in said if text else not said


async def test_the_root_keeps_its_shares_and_a_closing_queue_can_be_changed(client: Client) -> None:
    with pytest.raises(RefusedError, match="of queue root cannot change"):
        await client.merge(f"{GROUPS}/queues/root", {"spec": {"capability": {"cpu": 1}}})
    changed = await client.merge(f"{GROUPS}/queues/closing", {"spec": {"weight": 9}})
    assert changed["spec"]["weight"] == 9


async def test_defaults_that_depend_on_other_fields(client: Client) -> None:
    tasks = [
        task(replicas=3),
        task("b", replicas=4, partitionPolicy={**PARTITIONS, "minPartitions": 1}),
    ]
    made = await _try(
        client, job(*tasks, task("master"), name="other", plugins={"mpi": []}, maxRetry=0)
    )
    spec = made["spec"]
    assert [one["minAvailable"] for one in spec["tasks"]] == [3, 2, 1]
    assert [one["maxRetry"] for one in spec["tasks"]] == [3, 3, 3]
    assert (spec["schedulerName"], spec["minAvailable"], spec["maxRetry"]) == ("volcano", 6, 3)
    assert spec["plugins"] == {"mpi": [], "svc": [], "ssh": []}
    unnamed = {name: value for name, value in task().items() if name != "name"}
    hosts = task(pod={"hostNetwork": True}, maxRetry=5, minAvailable=0)
    first, second, third = (await _try(client, job(unnamed, hosts, unnamed, name="other")))["spec"][
        "tasks"
    ]
    assert [one["name"] for one in (first, second, third)] == ["default0", "work", "default2"]
    assert "dnsPolicy" not in first["template"]["spec"]
    assert second["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert (second["maxRetry"], second["minAvailable"]) == (5, 0)
    assert (await _try(client, group(minMember=1)))["spec"]["queue"] == "fresh"
    assert (await _try(client, group(queue="child")))["spec"]["queue"] == "child"
    notes = (await _try(client, queue(annotations=hierarchy("a/b", "2/3"))))["metadata"][
        "annotations"
    ]
    assert notes == hierarchy("root/a/b", "1/2/3")


async def test_a_pod_that_asks_for_it_gets_the_gate_once(client: Client) -> None:
    name = "scheduling.volcano.sh/queue-allocation-gate"
    asks = pod()
    asks["metadata"]["annotations"] = {name: "true"}
    for gates in ([], [{"name": "example.com/other"}], [{"name": name}]):
        body = {**asks, "spec": {**asks["spec"], **({"schedulingGates": gates} if gates else {})}}
        made = [one["name"] for one in (await _try(client, body))["spec"]["schedulingGates"]]
        assert made.count(name) == 1
        assert len(made) == len({name, *(one["name"] for one in gates)})
    assert "schedulingGates" not in (await _try(client, pod()))["spec"]


def test_policies_are_named_like_their_bindings() -> None:
    for path in ADMISSION:
        found = documents(path)
        for policy, binding in zip(found[::2], found[1::2], strict=True):
            assert policy["metadata"]["name"] == binding["spec"]["policyName"]
            assert binding["metadata"]["name"] == policy["metadata"]["name"]
            assert Path(path).stem == policy["metadata"]["name"].partition(".")[0]
