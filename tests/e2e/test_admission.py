"""The admission policies of deploy/, case by case on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import MERGE, Client, Object, RefusedError, path_of
from tests.controlplane.manifests import ADMISSION, apply_all, documents
from tests.controlplane.processes import ControlPlane, running
from tests.e2e.cluster import GROUPS

NAMESPACE = "admission"
JOB, FLOW = "batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1"
SCHEDULING, TOPOLOGY = "scheduling.volcano.sh/v1beta1", "topology.volcano.sh/v1alpha1"
CLUSTER = {"Queue", "HyperNode"}


def thing(version: str, kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    where = {} if kind in CLUSTER else {"namespace": NAMESPACE}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **where, **metadata},
        "spec": spec,
    }


def task(name: str = "work", replicas: int = 1, cpu: object = "1", **more: Any) -> Object:
    amounts = {"requests": {"cpu": cpu}}
    container = {"name": "c", "image": "i", "resources": amounts, **more.pop("container", {})}
    spec = {"containers": [container], **more.pop("pod", {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job(*tasks: Object, name: str = "one", **spec: Any) -> Object:
    return thing(JOB, "Job", name, {"tasks": list(tasks) or [task()], **spec})


def policies(*given: Object) -> Object:
    return job(policies=list(given))


def after(*names: str) -> Object:
    return {"dependsOn": {"name": list(names)}}


def queue(name: str = "new", annotations: Object | None = None, **spec: Any) -> Object:
    return thing(SCHEDULING, "Queue", name, spec, annotations=annotations or {})


def hierarchy(path: str, weights: str) -> Object:
    return {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}


def group(**spec: Any) -> Object:
    return thing(SCHEDULING, "PodGroup", "one", spec)


def flow(**flows: list[str]) -> Object:
    made = [{"name": name, "dependsOn": {"targets": deps}} for name, deps in flows.items()]
    return thing(FLOW, "JobFlow", "one", {"flows": made})


def cron(schedule: str = "* * * * *", name: str = "one", **spec: Any) -> Object:
    template = {"spec": {"tasks": [task()]}}
    spec = {"schedule": schedule, "jobTemplate": template, **spec}
    return thing(JOB, "CronJob", name, spec)


def node_group(**selector: Any) -> Object:
    spec = {"tier": 1, "members": [{"type": "Node", "selector": selector}]}
    return thing(TOPOLOGY, "HyperNode", "one", spec)


def pod(scheduler: str = "volcano", **annotations: str) -> Object:
    notes = {f"volcano.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
    return thing("v1", "Pod", "one", spec, annotations=notes)


BOTH = {"highestTierAllowed": 1, "highestTierName": "rack"}
PARTITIONS = {"totalPartitions": 2, "partitionSize": 2}
CLAIM = {"accessModes": ["ReadWriteOnce"]}
ABORT = {"action": "AbortJob", "event": "PodFailed"}

TAKEN: dict[str, Object] = {
    "a job": job(),
    "a job with all policies": policies(
        ABORT,
        {"action": "RestartJob", "events": ["PodEvicted", "TaskFailed"], "event": "PodEvicted"},
        {"action": "RestartPartition", "exitCode": 3},
    ),
    "a job with any event": policies({"action": "CompleteJob", "event": "*"}),
    "a job with dependencies": job(
        task("a"), task("b", **after("a")), task("c", **after("a", "b")), task("d", **after("c"))
    ),
    "a job with a long chain": job(
        task("t0"), *[task(f"t{n}", **after(f"t{n - 1}")) for n in range(1, 15)]
    ),
    "a job with partitions": job(
        task(replicas=4, minAvailable=2, partitionPolicy={**PARTITIONS, "minPartitions": 1})
    ),
    "a job with mpi": job(task("launcher"), plugins={"mpi": ["--master=launcher"], "env": []}),
    "a job with volumes": job(
        volumes=[
            {"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/b", "volumeClaim": CLAIM}
        ]
    ),
    "a job with whole CPUs": job(task(topologyPolicy="restricted", cpu=2)),
    "a job in a new queue": job(queue="fresh"),
    "a queue": queue(capability={"cpu": 2}, deserved={"cpu": "1500m"}, guarantee={"resource": {"cpu": 1}}),
    "a queue below another": queue(parent="parent", capability={"cpu": "4"}, deserved={"cpu": 2}),
    "a queue with a hierarchy": queue(annotations=hierarchy("root/a/b", "1/2/0.5")),
    "a PodGroup": group(minMember=1, networkTopology={"highestTierAllowed": 1}),
    "a flow": flow(a=[], b=["a"], c=["a", "b"]),
    "a schedule": cron("*/5 0-23 1,15 jan-dec 0-6", timeZone="America/Argentina/Buenos_Aires"),
    "a schedule in a word": cron("@hourly"),
    "a schedule with a duration": cron("@every 1h30m"),
    "a HyperNode": node_group(regexMatch={"pattern": "^node-[0-9]+$"}),
    "a budget in percent": pod(jdb_min_available="50%"),
    "a pod of others": pod("default-scheduler", jdb_min_available="none"),
}  # fmt: skip

REFUSED: dict[str, tuple[Object, str]] = {
    "no tasks": (thing(JOB, "Job", "one", {"queue": "default"}), "spec.tasks is empty"),
    "minAvailable of a task": (job(task(minAvailable=2)), "spec.tasks[].minAvailable is larger"),
    "minAvailable of a job": (job(minAvailable=2), "spec.minAvailable is larger"),
    "a task twice": (job(task(), task()), "spec.tasks[].name is used twice"),
    "both tiers": (job(networkTopology=BOTH), "not both"),
    "both tiers of a partition": (
        job(task(replicas=4, partitionPolicy={**PARTITIONS, "networkTopology": BOTH})), "not both"
    ),
    "partitions": (job(task(replicas=3, partitionPolicy=PARTITIONS)), "totalPartitions times"),
    "partitions that are needed": (
        job(task(replicas=4, minAvailable=3, partitionPolicy={**PARTITIONS, "minPartitions": 1})),
        "minPartitions times",
    ),
    "event and exit code": (policies({**ABORT, "exitCode": 1}), "not both"),
    "neither": (policies({"action": "AbortJob"}), "needs event, events or exitCode"),
    "internal event": (policies({**ABORT, "event": "OutOfSync"}), "event of a policy; allowed"),
    "action": (policies({**ABORT, "action": "SyncJob"}), "action of a policy; allowed"),
    "action of an exit code": (policies({"action": "Dance", "exitCode": 1}), "action of a policy"),
    "an event twice": (policies(ABORT, ABORT), "the same event"),
    "an event twice in a task": (job(task(policies=[ABORT, ABORT])), "the same event"),
    "any and one": (policies(ABORT, {"action": "AbortJob", "event": "*"}), "no other event"),
    "exit code 0": (policies({"action": "AbortJob", "exitCode": 0}), "must not be 0"),
    "an exit code twice": (policies(*[{"action": "AbortJob", "exitCode": 1}] * 2), "same exitCode"),
    "a long name": (job(name="a" * 64), "more than 63 characters"),
    "a long name of a pod": (job(task("b" * 30), name="a" * 40), "more than 63 characters together"),
    "a plugin": (job(plugins={"magic": []}), "spec.plugins; allowed"),
    "mpi without its master": (job(plugins={"mpi": []}), "needs its master task"),
    "a mount twice": (
        job(volumes=[{"mountPath": "/a", "volumeClaimName": n} for n in "ab"]), "used twice"
    ),
    "no claim": (job(volumes=[{"mountPath": "/a"}]), "needs either volumeClaim"),
    "two claims": (
        job(volumes=[{"mountPath": "/a", "volumeClaim": CLAIM, "volumeClaimName": "a"}]),
        "needs either volumeClaim",
    ),
    "name of a claim": (job(volumes=[{"mountPath": "/a", "volumeClaimName": "A B"}]), "no name of"),
    "an unknown dependency": (job(task("a", **after("b"))), "does not exist"),
    "a cycle": (job(task("a", **after("b")), task("b", **after("a")), task("c")), "a cycle"),
    "a cycle of one": (job(task("a", **after("a"))), "a cycle"),
    "no containers": (job(task(pod={"containers": []})), "containers is empty"),
    "name of a container": (job(task(container={"name": "A B"})), "a container whose name"),
    "an amount": (job(task(cpu="2.5x")), "no quantity"),
    "a negative amount": (job(task(cpu="-1")), "negative"),
    "a limit": (
        job(task(container={"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1"}}})),
        "more than its limit",
    ),
    "restart policy": (job(task(pod={"restartPolicy": "Perhaps"})), "restartPolicy; allowed"),
    "parts of CPUs": (job(task(topologyPolicy="restricted", cpu="1500m")), "whole number of CPUs"),
    "a closed queue": (job(queue="closed"), "queue closed is Closed"),
    "a closing queue": (job(queue="closing"), "queue closing is Closing"),
    "the root": (job(queue="root"), "queue root takes no jobs"),
    "a parent": (job(queue="parent"), "has queues below it, such as child"),
    "a group in a closed queue": (group(queue="closed"), "queue closed is Closed"),
    "both tiers of a group": (group(networkTopology=BOTH), "not both"),
    "both tiers of a sub-group": (
        group(subGroupPolicy=[{"name": "a", "networkTopology": BOTH}]), "not both"
    ),
    "a negative share": (queue(capability={"cpu": "-1"}), "spec.capability has a negative amount"),
    "half a GPU": (queue(deserved={"example.com/gpu": "500m"}), "spec.deserved has a fraction"),
    "a guarantee alone": (queue(guarantee={"resource": {"cpu": 1}}), "larger than spec.deserved"),
    "too much deserved": (
        queue(deserved={"cpu": 3}, capability={"cpu": 2}), "larger than spec.capability"
    ),
    "its own parent": (queue(parent="new"), "spec.parent is the queue itself"),
    "paths of two lengths": (queue(annotations=hierarchy("root/a", "1")), "different lengths"),
    "a weight": (queue(annotations=hierarchy("root/a", "1/0")), "not a positive number"),
    "above another": (queue(annotations=hierarchy("root/tree", "1/1")), "queue leaf is below it"),
    "more than the parent": (
        queue(parent="parent", capability={"cpu": 100}), "larger than that of the parent parent"
    ),
    "deserved without the parent": (
        queue(parent="parent", deserved={"memory": 1}), "spec.deserved is larger than that of the"
    ),
    "an unknown target": (flow(a=["b"]), "does not exist"),
    "a cycle of flows": (flow(a=["b"], b=["a"]), "has a cycle"),
    "no schedule": (cron(""), "spec.schedule; allowed"),
    "a zone in the schedule": (cron("TZ=UTC * * * * *"), "use spec.timeZone"),
    "four fields": (cron("* * * *"), "spec.schedule; allowed"),
    "minute 60": (cron("60 * * * *"), "above 59 in field 1"),
    "day 7": (cron("* * * * 1-7"), "above 6 in field 5"),
    "no zone": (cron(timeZone=""), "spec.timeZone; allowed"),
    "the local zone": (cron(timeZone="LOCAL"), "spec.timeZone; allowed"),
    "a long name of a CronJob": (cron(name="a" * 53), "more than 52 characters"),
    "no members": (thing(TOPOLOGY, "HyperNode", "one", {"tier": 1}), "spec.members is empty"),
    "a regular expression": (node_group(regexMatch={"pattern": "("}), "regexp"),
    "a budget of 0": (pod(jdb_min_available="0"), "jdb-min-available; allowed"),
    "a budget of 100%": (pod(jdb_max_unavailable="100%"), "jdb-max-unavailable; allowed"),
    "two budgets": (pod(jdb_min_available="1", jdb_max_unavailable="1"), "one of them"),
}  # fmt: skip

UPDATES: dict[str, tuple[Object, str]] = {
    "replicas": ({"tasks": [task(replicas=3, minAvailable=1)], "minAvailable": 1}, ""),
    "priority": ({"priorityClassName": "high"}, ""),
    "queue": ({"queue": "fresh"}, "spec.queue cannot change"),
    "another task": ({"tasks": [task(), task("b")]}, "number of spec.tasks cannot change"),
    "template": ({"tasks": [task(cpu="2")]}, "spec.tasks[].template cannot change"),
    "policies": ({"policies": [ABORT]}, "spec.policies cannot change"),
    "too few": ({"minAvailable": 5}, "spec.minAvailable is larger"),
    "volumes": ({"volumes": [{"mountPath": "/a", "volumeClaimName": "a"}]}, "spec.volumes cannot"),
}


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
    assert (spec["schedulerName"], spec["minAvailable"], spec["maxRetry"]) == ("volcano", 6, 3)
    assert spec["plugins"] == {"mpi": [], "svc": [], "ssh": []}
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
