"""One call for a frontend: manifests in every form, and arguments that are refused in words."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes

from pumice.client import (
    ArgumentError,
    AsyncClient,
    ClientSettings,
    ClosedError,
    InvalidRequestError,
    JobVerdict,
    Manifest,
    NotFoundError,
    Severity,
    StartOutcome,
)
from pumice.v1.object_pb2 import KIND_NODE, ObjectRef
from tests.server import asking, running
from tests.server.running import RunningCore

JOB = asking.job("train", 2)
GROUP = "scheduling.k8s.io/group-name"


@pytest.fixture
async def client(core: RunningCore) -> Any:
    await core.served([running.queue(), running.node("n1")])
    await core.session(1)
    async with AsyncClient(ClientSettings(address=core.server.address)) as made:
        yield made


class ToDict:
    """An object of a Kubernetes client library that has the API's own names."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def to_dict(self) -> dict[str, Any]:
        return self._body


async def test_a_manifest_comes_in_every_form(client: AsyncClient, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    text = yaml.safe_dump(JOB)
    file.write_text(text)
    forms: list[Any] = [file, str(file), text, JOB, [JOB], ToDict(JOB), Manifest(text), (file,)]
    forms += [{"apiVersion": "v1", "kind": "List", "items": [JOB]}]
    for form in forms:
        result = await client.schedule(form)
        assert [each.job for each in result.jobs] == ["team/train"], form
        assert result.is_placed
        assert not result.problems
    objects = running.gang("own", 1)
    assert (await client.schedule(objects)).is_placed
    both = await client.schedule([file, *objects])
    assert [each.job for each in both.jobs] == ["team/own", "team/train"]


async def test_objects_of_kubernetes_own_client_are_manifests(client: AsyncClient) -> None:
    container = kubernetes.V1Container(
        name="main", resources=kubernetes.V1ResourceRequirements(requests={"cpu": "1"})
    )
    spec = kubernetes.V1PodSpec(
        containers=[container], scheduler_name="volcano", restart_policy="Never"
    )
    pod = kubernetes.V1Pod(
        metadata=kubernetes.V1ObjectMeta(name="web", namespace="team"), spec=spec
    )
    job = kubernetes.V1Job(
        metadata=kubernetes.V1ObjectMeta(name="batch", namespace="team"),
        spec=kubernetes.V1JobSpec(parallelism=2, template=kubernetes.V1PodTemplateSpec(spec=spec)),
    )
    result = await client.schedule([pod, job])
    assert [each.job for each in result.jobs] == ["team/podgroup-web", "team/podgroup-batch"]
    assert [len(each.placed) for each in result.jobs] == [1, 2]
    assert not result.problems
    assert (await client.schedule(pod)).is_placed


async def test_the_answer_is_the_callers_own(core: RunningCore, client: AsyncClient) -> None:
    adapter_jobs = [item for number in range(3) for item in running.gang(f"w{number}", 9)]
    extra = [running.node("n2")]
    result = await client.schedule([*adapter_jobs, *extra])
    assert len(result.waits) == 3
    own = await client.schedule(JOB)
    assert [bind.job for bind in own.binds] == ["team/train"] * 2
    assert not own.waits


async def test_what_waits_has_its_amounts_and_an_explanation(client: AsyncClient) -> None:
    result = await client.schedule(asking.job("big", 1, requests={"cpu": "9"}))
    (waiting,) = result.waiting
    assert waiting.verdict is JobVerdict.NEVER_FITS
    places = {each.place: (each.resource, each.wanted, each.free) for each in waiting.shortages}
    assert places["largest node"] == ("cpu", 9000, 4000)
    assert "cpu: 9 wanted, 4 free of 4 (largest node n1)" in map(str, waiting.shortages)
    assert waiting.explanation is not None
    assert waiting.explanation.blocking_pod == "big-w-0"
    assert result.to_dict()["jobs"][0]["verdict"] == "never fits"
    assert not result.is_placed


async def test_what_is_wrong_with_a_manifest_is_in_the_answer(client: AsyncClient) -> None:
    bad = asking.job("bad", 3, requests={"cpu": "four"})
    result = await client.schedule(Manifest(yaml.safe_dump(bad), "team/bad.yaml"))
    (problem,) = result.problems
    assert problem.severity is Severity.ERROR
    assert (problem.source, problem.kind, problem.key) == ("team/bad.yaml:1", "Job", "team/bad")
    assert str(problem).startswith("team/bad.yaml:1: Job team/bad: spec.tasks[0].template.spec")
    assert result.jobs[0].verdict is JobVerdict.INVALID
    nothing = await client.schedule([{}])
    assert [(each.field, each.problem) for each in nothing.errors] == [("apiVersion", "is missing")]


async def test_objects_are_removed_by_kind_and_name(client: AsyncClient) -> None:
    result = await client.schedule(JOB, removed=["node/n1"])
    assert result.jobs[0].verdict is JobVerdict.NEVER_FITS
    by_uid = await client.schedule(JOB, removed=[ObjectRef(kind=KIND_NODE, uid="node-n1")])
    assert by_uid.jobs[0].verdict is JobVerdict.NEVER_FITS
    unknown = await client.schedule(JOB, removed=["Node/n9", "pod/team/none", "PodGroup/none"])
    assert [each.key for each in unknown.errors] == ["n9", "team/none", "default/none"]


async def test_a_hypothetical_job_is_explained(client: AsyncClient) -> None:
    big = asking.job("big", 5)
    found = await client.explain_job("team/big", manifest=big)
    assert found.sentence.startswith("team/big waits")
    assert found.nearest_nodes
    assert (found.blocking_pod, found.history) == ("big-w-4", ())
    pod = await client.explain_pod("team/train-w-0", manifest=JOB)
    assert pod.placements[0].node.node == "n1"
    idle = await client.explain_job("team/train", manifest=JOB, configuration="actions: enqueue\n")
    assert "no session has examined" in idle.sentence
    with pytest.raises(NotFoundError, match="neither in the request nor in the cluster") as caught:
        await client.explain_job("team/trian", manifest=JOB)
    assert caught.value.nearest_names == ("team/train",)


async def test_estimates_of_starts_come_with_the_answer(client: AsyncClient) -> None:
    jobs = [asking.job("first", 4), asking.job("second", 4)]
    result = await client.schedule(jobs, horizon_seconds=7200)
    first, second = (each.start_estimate for each in result.jobs)
    assert first is not None
    assert second is not None
    assert first.outcome is StartOutcome.EXPECTED
    assert second.sentence
    assert (await client.schedule(jobs)).jobs[0].start_estimate is None


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("schedule", {"manifest": 3}, "manifest: int given; allowed: a path, a text"),
        ("schedule", {"manifest": [3]}, "manifest: int given"),
        ("schedule", {"manifest": b"x"}, "manifest: bytes given"),
        ("schedule", {"manifest": io.StringIO("x")}, "manifest: str given|No such file"),
        ("schedule", {"manifest": ""}, "manifest is empty"),
        ("schedule", {"manifest": "none.yaml"}, "none.yaml: No such file"),
        ("schedule", {"manifest": Path("/")}, "/: Is a directory"),
        ("schedule", {"manifest": "x\0y"}, "manifest"),
        ("schedule", {"manifest": {"a": {1, 2}, "b": object()}}, "manifest"),
        ("schedule", {"manifest": {"a": float("nan")}}, "manifest[0]: Out of range float"),
        ("schedule", {"configuration": {"a": float("inf")}}, "configuration: Out of range float"),
        ("schedule", {"manifest": Manifest(None)}, "manifest.text: NoneType given"),  # type: ignore[arg-type]
        ("schedule", {"manifest": SimpleNamespace()}, "SimpleNamespace given"),
        ("schedule", {"removed": ["n1"]}, "'n1' names no kind; allowed: KIND/NAME"),
        ("schedule", {"removed": ["node/a/b"]}, "allowed: KIND/NAME"),
        ("schedule", {"removed": ["pod/"]}, "allowed: KIND/NAMESPACE/NAME"),
        ("schedule", {"removed": "node/n1"}, "removed: str given; allowed: a list"),
        ("schedule", {"removed": [7]}, "removed: int given"),
        ("schedule", {"configuration": 7}, "configuration: int given; allowed: the text"),
        ("schedule", {"configuration": Path("none.conf")}, "none.conf: No such file"),
        ("schedule", {"sessions": "3"}, "sessions: str given; allowed: a whole number"),
        ("schedule", {"sessions": 0}, "sessions: 0 given; allowed: from 1"),
        ("schedule", {"sessions": 2**40}, "allowed: from 1 to"),
        ("schedule", {"others": "yes"}, "others: str given; allowed: True or False"),
        ("schedule", {"request_id": 5}, "request_id: int given; allowed: a string"),
        ("schedule", {"cluster": 5}, "cluster: int given"),
        ("schedule", {"timeout_seconds": -1}, "timeout_seconds: -1 given; allowed: above 0"),
        ("schedule", {"timeout_seconds": float("nan")}, "timeout_seconds: nan given"),
        ("schedule", {"timeout_seconds": float("inf")}, "timeout_seconds: inf given"),
        ("schedule", {"horizon_seconds": 0}, "horizon_seconds: 0 given; allowed: above 0"),
        ("estimate_start", {"name": "a", "pod": "yes"}, "pod: str given"),
        ("schedule", {"timeout_seconds": "5"}, "timeout_seconds: str given"),
        ("explain_job", {"name": ""}, "name is empty"),
        ("explain_job", {"name": "a/b/c"}, "'a/b/c' given; allowed: namespace/name"),
        ("explain_pod", {"name": 7}, "name: int given"),
        ("explain_job", {"name": "a", "nearest": "5"}, "nearest: str given"),
        (
            "explain_job",
            {"name": "a", "manifest": JOB, "nearest": 5},
            "nearest cannot be used with",
        ),
        ("explain_job", {"name": "a", "wait_seconds": -1}, "wait_seconds: -1 given"),
        ("list_jobs", {"phases": ["Waiting"]}, "unknown phase 'Waiting'; allowed: Pending"),
        ("list_jobs", {"phases": "Pending"}, "phases: str given; allowed: a list"),
        ("list_jobs", {"namespace": None}, "namespace: NoneType given"),
        ("list_sessions", {"count": 0}, "count: 0 given"),
        ("list_sessions", {"decided_only": 1}, "decided_only: int given"),
        ("get_session", {"number": "1"}, "number: str given"),
        ("check_config", {"configuration": None}, "configuration: NoneType given"),
        ("forget_cluster", {"cluster": ""}, "cluster is empty"),
    ],
)
async def test_an_argument_that_cannot_be_used_is_refused_in_words(
    method: str, arguments: dict[str, Any], words: str
) -> None:
    # No core is needed: nothing is sent.
    async with AsyncClient(ClientSettings(address="unix:/none", retry_seconds=0)) as client:
        with pytest.raises(ArgumentError) as caught:
            await getattr(client, method)(**arguments)
    assert any(part in str(caught.value) for part in words.split("|")), caught.value
    assert caught.value.advice


async def test_words_and_other_forms_are_accepted(client: AsyncClient, tmp_path: Path) -> None:
    assert await client.list_jobs(phases=["pending", "Inqueue"]) == []
    conf = {"actions": "enqueue", "tiers": [{"plugins": [{"name": "gang"}]}]}
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump(conf))
    for form in (conf, tmp_path / "conf.yaml", yaml.safe_dump(conf)):
        assert not (await client.schedule(JOB, configuration=form)).binds
    with pytest.raises(InvalidRequestError) as refused:
        await client.schedule(JOB, configuration="conf.yaml")
    assert refused.value.problems


async def test_several_clusters_are_named_in_the_error(core: RunningCore) -> None:
    await core.served([running.queue()], cluster="east")
    await core.served([running.queue()], cluster="west")
    async with AsyncClient(ClientSettings(address=core.server.address)) as client:
        with pytest.raises(InvalidRequestError) as caught:
            await client.schedule(JOB)
        assert set(caught.value.nearest_names) == {"east", "west"}
        assert [each.name for each in await client.list_clusters()] == ["east", "west"]
        assert (await client.schedule(JOB, cluster="east")).based_on_seq


async def test_a_closed_asynchronous_client_says_so(core: RunningCore) -> None:
    client = AsyncClient(ClientSettings(address=core.server.address))
    await client.close()
    with pytest.raises(ClosedError, match="the client is closed"):
        await client.list_queues()
    with pytest.raises(ClosedError):
        await anext(client.watch())
