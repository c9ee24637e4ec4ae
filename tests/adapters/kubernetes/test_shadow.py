"""An adapter that only looks, between a fake core and an API server that another one schedules."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

from pumice.adapters.kubernetes.commands import kubernetes_command
from pumice.adapters.kubernetes.errors import ReadOnlyError
from pumice.adapters.kubernetes.options import KubernetesOptions
from pumice.adapters.kubernetes.process import run_adapter
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.kubernetes.settings import AdapterSettings
from pumice.adapters.runtime.clock import SystemClock, end_tasks
from pumice.adapters.runtime.connect import channel_factory
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.shadow.options import ShadowOptions
from pumice.v1.cluster_service_pb2 import ConfigurationResult, Resync, StatusBatch
from pumice.v1.decision_pb2 import (
    OUTCOME_CODE_APPLIED,
    OUTCOME_CODE_CONFLICT,
    OUTCOME_CODE_FAILED,
    OUTCOME_CODE_RETRYING,
    Bind,
    Decision,
    Evict,
)
from pumice.v1.object_pb2 import KIND_POD, ObjectRef
from pumice.v1.status_pb2 import Event
from tests.adapters.fake_clock import until
from tests.adapters.fake_core import ServedStream, running_core, serve
from tests.adapters.kubernetes.conftest import Tokens
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.adapters.kubernetes.objects import PODGROUPS, group, node, pod
from tests.adapters.kubernetes.test_flags import settings

WRITES = {"POST", "PUT", "PATCH", "DELETE"}
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


class Shadow:
    """One shadow adapter; the test is the core and the other scheduler."""

    def __init__(self, api: FakeApi, stream: ServedStream, report: Path) -> None:
        self.api, self.stream, self._report = api, stream, report
        self._ids = 0

    def add_pod(self, name: str, **fields: Any) -> str:
        uid: str = self.api.put("pods", pod(name, **fields))["metadata"]["uid"]
        return uid

    def place(self, name: str, node: str, **metadata: Any) -> None:
        """As the other scheduler does; not a call that the adapter makes."""
        uid = self.api.get("pods", "ns", name)["metadata"]["uid"]
        body = pod(name, node=node, uid=uid, **metadata)
        if metadata:
            body["status"]["conditions"] = [EVICTED]
        self.api.put("pods", body)

    async def knows(self, uid: str, node: str) -> None:
        held = self.stream.model.objects
        await self.stream.until(
            lambda: (KIND_POD, uid) in held and held[KIND_POD, uid][1].pod.node_name == node
        )

    def decide(self, **order: Any) -> str:
        self._ids += 1
        decision_id = f"d{self._ids}"
        self.stream.stream.decide([Decision(id=decision_id, **order)], [])
        return decision_id

    def bind(self, uid: str, name: str, node: str) -> str:
        return self.decide(bind=Bind(namespace="ns", name=name, uid=uid, node=node))

    def codes(self, decision_id: str) -> list[int]:
        outcomes = self.stream.model.outcomes
        return [outcome.code for outcome in outcomes if outcome.decision_id == decision_id]

    async def outcome(self, decision_id: str) -> int:
        def final() -> list[int]:
            return [c for c in self.codes(decision_id) if c != OUTCOME_CODE_RETRYING]

        await self.stream.until(final, "no outcome")
        return final()[0]

    def counted(self, name: str) -> Any:
        """In the last summary; None: there is none yet."""
        summaries = self.told("summary")
        return summaries[-1][name] if summaries else None

    def told(self, kind: str) -> list[dict[str, Any]]:
        if not self._report.exists():
            return []
        lines = [json.loads(line) for line in self._report.read_text().splitlines()]
        return [line for line in lines if line["type"] == kind]


class Shadows:
    def __init__(self, api: FakeApi, folder: Path) -> None:
        self._api, self._folder = api, folder
        self.task: asyncio.Task[None] | None = None
        self._cores: list[Any] = []
        self._streams: list[ServedStream] = []

    async def start(self, wait_seconds: float = 30.0, *, accepted: bool = True) -> Shadow:
        report = self._folder / "report.jsonl"
        shadowing = AdapterSettings(
            kubeconfig="",
            context="",
            master=self._api.server,
            qps=0,
            burst=1,
            world=KubernetesOptions(make_queues=False, read_only=True),
            runtime=RuntimeOptions("cluster-shadow", "a", flush_seconds=0.0),
            lease=None,
            shadow=ShadowOptions(wait_seconds=wait_seconds, report=report, every_seconds=0.05),
        )
        running = running_core(self._folder)
        core, address = await running.__aenter__()
        self._cores.append(running)
        self.task = asyncio.create_task(run_adapter(shadowing, channel_factory(address)))
        stream = serve(await core.accept())
        self._streams.append(stream)
        await stream.snapshot_done()
        result = ConfigurationResult(seq=stream.model.configuration_seqs[-1], accepted=accepted)
        stream.stream.send(configuration_result=result)
        # The adapter reads in order: when it answers this question, it has read the result.
        asked = stream.model.applied_seq
        nobody = ObjectRef(kind=KIND_POD, uid="never-there")
        stream.stream.resync(Resync(objects=[nobody]))
        await stream.until(lambda: stream.model.applied_seq > asked)
        return Shadow(self._api, stream, report)

    async def close(self) -> None:
        if self.task is not None:
            await end_tasks(self.task)
        for stream in self._streams:
            await stream.close()
        for core in self._cores:
            await core.__aexit__(None, None, None)


@pytest.fixture
async def shadows(
    fake_api: FakeApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Shadows]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    fake_api.put("nodes", node("n1"))
    # Equal to the first but for its name, and one that is not.
    fake_api.put("nodes", node("n1-twin"))
    fake_api.put("nodes", node("n2", disk="fast"))
    fake_api.put(PODGROUPS, group("g"))
    with TemporaryDirectory(prefix="pumice") as folder:
        made = Shadows(fake_api, Path(folder))
        try:
            yield made
        finally:
            await made.close()
        # Whatever the test was about: the cluster was not touched.
        assert [call for call in fake_api.calls if call[0] in WRITES] == []


async def test_a_decision_waits_for_the_other_scheduler_and_is_applied_when_it_agrees(
    shadows: Shadows,
) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    decision = shadow.bind(uid, "p", "n1")
    await shadow.stream.until(lambda: shadow.codes(decision) == [OUTCOME_CODE_RETRYING])
    shadow.place("p", "n1")
    # The core needs no outcome: the pod itself shows it.
    await shadow.knows(uid, "n1")
    await until(lambda: shadow.counted("pods_same_node") == 1)
    assert shadow.told("difference") == []
    assert shadow.counted("agreement_percent") == 100


async def test_a_bind_is_kept_from_the_core_until_it_has_decided_itself(shadows: Shadows) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.place("p", "n2")
    # What comes after it has arrived, it has not.
    marker = shadow.add_pod("marker")
    await shadow.knows(marker, "")
    assert shadow.stream.model.objects[KIND_POD, uid][1].pod.node_name == ""
    assert await shadow.outcome(shadow.bind(uid, "p", "n1")) == OUTCOME_CODE_CONFLICT
    await shadow.knows(uid, "n2")
    (found,) = shadow.told("difference")
    assert (found["what"], found["theirs"], found["ours"]) == ("node", "n2", "n1")


async def test_the_same_node_decided_later_counts_as_applied(shadows: Shadows) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.place("p", "n1")
    await shadow.knows(shadow.add_pod("marker"), "")
    assert await shadow.outcome(shadow.bind(uid, "p", "n1")) == OUTCOME_CODE_APPLIED
    await shadow.knows(uid, "n1")


async def test_a_bind_that_we_would_not_make_reaches_the_core_in_the_end(shadows: Shadows) -> None:
    shadow = await shadows.start(wait_seconds=0.1)
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.place("p", "n1")
    await shadow.knows(uid, "n1")
    assert [one["what"] for one in shadow.told("difference")] == ["job later"]


async def test_what_no_core_could_decide_on_is_not_compared(shadows: Shadows) -> None:
    shadow = await shadows.start(wait_seconds=0.3)
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.stream.stream.end()
    await until(lambda: shadow.stream.stream.is_over)
    shadow.place("p", "n1")
    await until(lambda: shadow.counted("pods_not_compared") == 1)
    assert shadow.told("difference") == []


async def test_a_decision_that_nobody_carries_out_is_a_conflict_and_no_failure(
    shadows: Shadows,
) -> None:
    shadow = await shadows.start(wait_seconds=0.1)
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    for _ in range(2):
        decision = shadow.bind(uid, "p", "n1")
        assert await shadow.outcome(decision) == OUTCOME_CODE_CONFLICT
        assert OUTCOME_CODE_FAILED not in shadow.codes(decision)
    assert [one["what"] for one in shadow.told("difference")] == ["job only ours"]
    assert [call for call in shadow.api.calls if call[1].endswith("/pods/p")] == []


async def test_an_eviction_is_compared_even_when_the_pod_is_gone_at_once(shadows: Shadows) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p", node="n1")
    await shadow.knows(uid, "n1")
    shadow.place("p", "n1", deletionTimestamp="2026-11-01T00:00:00Z")
    shadow.api.remove("pods", "ns", "p")
    await shadow.knows(shadow.add_pod("marker"), "")
    assert (KIND_POD, uid) in shadow.stream.model.objects
    order = Evict(namespace="ns", name="p", uid=uid, node="n1", reason="preempt")
    assert await shadow.outcome(shadow.decide(evict=order)) == OUTCOME_CODE_APPLIED
    await shadow.stream.until(lambda: (KIND_POD, uid) not in shadow.stream.model.objects)
    await until(lambda: shadow.counted("evictions_agreed") == 1)


async def test_an_eviction_that_nobody_makes_is_a_conflict(shadows: Shadows) -> None:
    shadow = await shadows.start(wait_seconds=0.1)
    uid = shadow.add_pod("p", node="n1")
    await shadow.knows(uid, "n1")
    order = Evict(namespace="ns", name="p", uid=uid, node="n1", reason="preempt")
    assert await shadow.outcome(shadow.decide(evict=order)) == OUTCOME_CODE_CONFLICT
    assert [one["what"] for one in shadow.told("difference")] == ["eviction only ours"]


async def test_a_pod_of_the_same_name_ends_the_wait_for_the_last_one(shadows: Shadows) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.place("p", "n1")
    shadow.api.remove("pods", "ns", "p")
    second = shadow.add_pod("p")
    await shadow.knows(second, "")
    assert (KIND_POD, uid) not in shadow.stream.model.objects


async def test_events_statuses_and_bad_objects_are_not_written(shadows: Shadows) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p")
    bad = pod("bad")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    shadow.api.put("pods", bad)
    await shadow.knows(uid, "")
    event = Event(kind=KIND_POD, namespace="ns", name="p", uid=uid, reason="R", message="m")
    shadow.stream.stream.say_status(StatusBatch(events=[event]))
    decision = shadow.bind(uid, "p", "n1")
    await shadow.stream.until(lambda: shadow.codes(decision))


async def test_the_summary_is_printed_at_the_end(
    shadows: Shadows, capsys: pytest.CaptureFixture[str]
) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.bind(uid, "p", "n1")
    shadow.place("p", "n2")
    await shadow.knows(uid, "n2")
    assert shadows.task is not None
    await end_tasks(shadows.task)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "pod ns/p: volcano chose n2, pumice n1"
    assert said[1].startswith("shadow of volcano: 0 % of all decisions were the same")


@pytest.mark.parametrize("method", sorted(WRITES))
async def test_a_session_that_only_looks_sends_no_write(
    fake_api: FakeApi, tokens: Tokens, method: str
) -> None:
    clock = SystemClock()
    session = ApiSession(tokens, TokenBucket(0, 1, clock), clock, Metrics(), read_only=True)
    await session.open()
    try:
        with pytest.raises(ReadOnlyError, match=method):
            await session.call(method, "/api/v1/namespaces/ns/pods/p", b"{}", urgent=True)
        await session.call("GET", "/version")
    finally:
        await session.close()
    assert [call[0] for call in fake_api.calls] == ["GET"]


def test_a_shadow_holds_no_lease_makes_no_queue_and_has_a_name_of_its_own() -> None:
    made = settings("--shadow", "--shadow-wait=5s", "--scheduler-name=other")
    assert made.shadow == ShadowOptions(scheduler="other", wait_seconds=5.0)
    assert made.lease is None
    assert made.world.read_only
    assert not made.world.make_queues
    assert made.runtime.cluster == "kubernetes-shadow"
    assert settings().shadow is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shadow", "--shadow-wait=0s"], "longer than 0s"),
        (["--shadow", "--shadow-every=0s"], "longer than 0s"),
        (["--shadow", "--shadow-wait=60s"], "shorter than --apply-timeout"),
        (["--shadow", "--shadow-report=/"], "is a directory"),
    ],
)
def test_bad_flags_of_a_shadow_are_named(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(kubernetes_command, ["--core", "unix:/nowhere", *arguments])
    assert result.exit_code == 2
    assert said in result.output


async def test_a_tie_is_not_a_difference(shadows: Shadows) -> None:
    shadow = await shadows.start()
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.bind(uid, "p", "n1")
    await shadow.stream.until(lambda: shadow.stream.model.outcomes)
    shadow.place("p", "n1-twin")
    await until(lambda: shadow.counted("pods_equivalent_node") == 1)
    assert shadow.counted("agreement_percent") == 100
    assert shadow.told("difference") == []


async def test_without_a_valid_configuration_there_is_no_report(
    shadows: Shadows, capsys: pytest.CaptureFixture[str]
) -> None:
    shadow = await shadows.start(0.1, accepted=False)
    uid = shadow.add_pod("p")
    await shadow.knows(uid, "")
    shadow.place("p", "n1")
    await shadow.knows(uid, "n1")
    assert shadows.task is not None
    await end_tasks(shadows.task)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "shadow of volcano: nothing was compared: no valid configuration: nothing is scheduled"
    ]
    assert not shadow.told("difference")
    assert [line["problem"] for line in shadow.told("no summary")]
