"""Bearer tokens, certificates and roles: who may call what, for which cluster."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from google.protobuf.message_factory import GetMessageClass

from pumice.client import AccessDeniedError, AsyncClient, ClientSettings
from pumice.server import errors
from pumice.server.access import AccessFile, AccessFileError, Caller, Role, roles_for
from pumice.server.authorization import MAX_LINES_PER_SECOND, AuditLog, cluster_field
from pumice.server.core_environment import CoreEnvironment
from pumice.server.metrics import Metrics
from pumice.server.peers import Certificate
from pumice.server.server import SERVICES, CoreServer, ServerOptions
from pumice.v1 import (
    administration_service_pb2,
    cluster_service_pb2,
    inspection_service_pb2,
    recording_service_pb2,
    scheduling_service_pb2,
)
from tests.server.running import ManualClock, ScriptedAdapter, gang, node, queue

Code = grpc.StatusCode


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def rules(*tokens: tuple[str, list[str], list[str] | None]) -> str:
    items = [
        {"sha256": digest(token), "name": token, "roles": roles}
        | ({} if clusters is None else {"clusters": clusters})
        for token, roles, clusters in tokens
    ]
    return yaml.safe_dump({"tokens": items})


class Guarded:
    """A core behind a file of roles."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "access.yaml"
        self.file.write_text(
            rules(
                ("adapter", ["adapter"], ["c1"]),
                ("frontend", ["frontend"], ["c1"]),
                ("observer", ["observer"], None),
                ("admin", ["admin"], None),
            )
        )
        self.clock = ManualClock()
        env = self.env = CoreEnvironment(clock=self.clock)
        address = f"unix:{folder}/core.sock"
        self.server = CoreServer(ServerOptions(address, env=env, access=self.file))

    def client(self, token: str = "") -> AsyncClient:
        return AsyncClient(
            ClientSettings(address=self.server.address, token=token, retry_seconds=0)
        )


@pytest.fixture
async def guarded(socket_folder: Path) -> AsyncIterator[Guarded]:
    held = Guarded(socket_folder)
    await held.server.start()
    yield held
    await held.server.stop()


async def adapter_of(guarded: Guarded, token: str, cluster: str) -> tuple[Any, ScriptedAdapter]:
    class Authorized:
        """A channel that sends the token with every stream."""

        def __init__(self) -> None:
            self.channel = grpc.aio.insecure_channel(guarded.server.address)

        def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
            method = self.channel.stream_stream(*args, **kwargs)
            metadata = (("authorization", f"Bearer {token}"),) if token else ()
            return lambda: method(metadata=metadata)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.channel, name)

    channel: Any = Authorized()
    return channel.channel, ScriptedAdapter(channel, cluster=cluster)


async def test_each_role_may_do_its_own(guarded: Guarded) -> None:
    channel, adapter = await adapter_of(guarded, "adapter", "c1")
    await adapter.connect()
    await adapter.snapshot([queue(), node("n1")])
    async with guarded.client("frontend") as client:
        assert len((await client.schedule(gang("job", 1))).binds) == 1
        assert [held.name for held in await client.list_nodes()] == ["n1"]
    async with guarded.client("observer") as client:
        assert [held.name for held in await client.list_nodes()] == ["n1"]
        with pytest.raises(AccessDeniedError) as denied:
            await client.schedule(gang("job", 1))
        assert denied.value.reason == "ROLE_DENIED"
    async with guarded.client("admin") as client:
        assert len((await client.schedule(gang("job", 1))).binds) == 1
    await channel.close()


@pytest.mark.parametrize("token", ["", "guess", "Admin"])
async def test_nobody_comes_in_without_a_token_that_is_known(guarded: Guarded, token: str) -> None:
    async with guarded.client(token) as client:
        with pytest.raises(AccessDeniedError) as denied:
            await client.list_nodes()
        assert denied.value.reason == "TOKEN_INVALID"
        assert denied.value.advice


async def test_a_token_of_some_clusters_is_for_these_only(guarded: Guarded) -> None:
    settings = ClientSettings(
        address=guarded.server.address, token="frontend", cluster="c2", retry_seconds=0
    )
    async with AsyncClient(settings) as client:
        for call in (client.list_nodes(), client.schedule([]), client.explain_job("team/job")):
            with pytest.raises(AccessDeniedError):
                await call


async def test_a_recording_is_for_admins_of_the_cluster(guarded: Guarded) -> None:
    guarded.file.write_text(
        rules(
            ("adapter", ["adapter"], None),
            ("own", ["admin"], ["c1"]),
            ("other", ["admin"], ["c2"]),
            ("frontend", ["frontend", "observer", "adapter"], None),
        )
    )
    guarded.clock.advance(2)
    channel, adapter = await adapter_of(guarded, "adapter", "c1")
    await adapter.connect()
    await adapter.snapshot([queue(), node("n1")])
    async with guarded.client("own") as client:
        first = await anext(aiter(client.record()))
        assert first.header.cluster == "c1"
    for token, cluster in (("other", "c1"), ("own", "c2"), ("frontend", "c1"), ("", "c1")):
        settings = ClientSettings(guarded.server.address, cluster, token=token)
        async with AsyncClient(settings) as client:
            with pytest.raises(AccessDeniedError):
                await anext(aiter(client.record()))
    await channel.close()


@pytest.mark.parametrize(
    ("token", "cluster", "code"),
    [
        ("adapter", "c2", Code.PERMISSION_DENIED),
        ("frontend", "c1", Code.PERMISSION_DENIED),
        ("", "c1", Code.UNAUTHENTICATED),
    ],
)
async def test_an_adapter_streams_its_own_cluster_only(
    guarded: Guarded, token: str, cluster: str, code: grpc.StatusCode
) -> None:
    channel, adapter = await adapter_of(guarded, token, cluster)
    await adapter.send(hello=adapter.hello)
    assert (await adapter.ended_with())[0] is code
    await channel.close()


async def test_health_is_for_everyone(guarded: Guarded) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with grpc.aio.insecure_channel(guarded.server.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_changed_file_counts_and_a_broken_one_does_not(guarded: Guarded) -> None:
    guarded.file.write_text(rules(("new", ["observer"], None)))
    guarded.clock.advance(2)
    async with guarded.client("new") as client, guarded.client("observer") as old:
        assert (await client.check_config(inspection_conf())).valid
        with pytest.raises(AccessDeniedError):
            await old.check_config(inspection_conf())
        guarded.file.write_text("tokens: [")
        guarded.clock.advance(2)
        assert (await client.check_config(inspection_conf())).valid


def test_a_file_with_the_time_and_size_of_the_old_one_counts(tmp_path: Path) -> None:
    """As files from archives have."""
    path, clock = tmp_path / "access.yaml", ManualClock()
    path.write_text(rules(("old", ["observer"], None)))
    access = AccessFile(path, clock)
    other = tmp_path / "other.yaml"
    other.write_text(rules(("new", ["observer"], None)))
    stat = path.stat()
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert other.stat().st_size == stat.st_size
    other.replace(path)
    clock.advance(2)
    assert access.authenticate("new", Certificate()).name == "new"
    with pytest.raises(errors.TokenError):
        access.authenticate("old", Certificate())


def test_a_broken_file_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "access.yaml", ManualClock()
    good = rules(("old", ["observer"], None))
    path.write_text(good)
    access = AccessFile(path, clock)
    for content, count in (("tokens: [", 1), (good, 1), ("tokens: [", 2)):
        path.write_text(content)
        for _ in range(3):
            clock.advance(2)
            access.authenticate("old", Certificate())
        assert caplog.text.count("the old roles stay in use") == count


def inspection_conf() -> Any:
    from pumice.v1.configuration_pb2 import Configuration

    return Configuration()


def test_every_method_has_a_rule_and_admins_may_all() -> None:
    files = (
        administration_service_pb2,
        cluster_service_pb2,
        inspection_service_pb2,
        recording_service_pb2,
        scheduling_service_pb2,
    )
    services = {
        name: service
        for file in files
        for name, service in (
            (held.full_name, held) for held in file.DESCRIPTOR.services_by_name.values()
        )
    }
    assert set(services) == set(SERVICES)
    for name, service in services.items():
        for method in service.methods:
            assert Role.ADMIN in roles_for(f"/{name}/{method.name}")
    assert roles_for("/pumice.v1.RecordingService/Record") == {Role.ADMIN}
    assert roles_for("/pumice.v1.AdministrationService/ForgetCluster") == {Role.ADMIN}
    assert Role.ADAPTER not in roles_for("/pumice.v1.InspectionService/ListJobs")


def test_a_certificate_without_a_rule_is_an_adapter_of_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "access.yaml"
    file.write_text("certificates:\n- {name: board, roles: [observer]}\n")
    access = AccessFile(file, ManualClock())
    board = access.authenticate(None, Certificate(("board",)))
    assert board == Caller("board", frozenset({Role.OBSERVER}))
    other = access.authenticate(None, Certificate(("prod", "prod-2"), frozenset({"c1"})))
    assert other.roles == {Role.ADAPTER}
    assert other.clusters == frozenset({"c1"})


# Methods whose requests are about no cluster.
NO_CLUSTER = {"CheckConfig", "ListClusters"}


def test_the_cluster_of_every_method_is_checked() -> None:
    caller = Caller("a", frozenset(Role), frozenset({"c1", "c2"}))
    for file in (
        cluster_service_pb2,
        inspection_service_pb2,
        recording_service_pb2,
        scheduling_service_pb2,
    ):
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                request = GetMessageClass(method.input_type)()
                if method.name == "Connect":
                    request.hello.SetInParent()  # type: ignore[attr-defined]
                if method.name == "Schedule":
                    request.cluster.SetInParent()  # type: ignore[attr-defined]
                field = cluster_field(request)
                assert (field is None) == (method.name in NO_CLUSTER), method.full_name
                if field is not None:
                    field.cluster = "c3"
                    with pytest.raises(errors.RoleDeniedError):
                        caller.check_cluster(field.cluster)


async def test_refusals_are_counted_and_written_into_the_audit_log(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded.client("guess") as client:
        with pytest.raises(AccessDeniedError):
            await client.list_nodes()
    async with guarded.client("observer") as client:
        with pytest.raises(AccessDeniedError):
            await client.schedule([])
    channel, adapter = await adapter_of(guarded, "adapter", "c2")
    await adapter.send(hello=adapter.hello)
    await adapter.ended_with()
    await channel.close()
    said: list[str] = []
    # A stream may end for its caller before the refusal is logged.
    async with asyncio.timeout(30):
        while len(said) < 3:
            await asyncio.sleep(0.01)
            records = [record for record in caplog.records if record.name == "pumice.audit"]
            said = [record.getMessage() for record in records]
    assert [line.partition(": ")[0] for line in said] == [
        "refused /pumice.v1.InspectionService/ListNodes to unix",
        "refused /pumice.v1.SchedulingService/Schedule to observer",
        "refused /pumice.v1.ClusterService/Connect to adapter",
    ]
    registry = guarded.env.metrics.registry

    def count(method: str, code: str) -> float | None:
        labels = {"method": f"/pumice.v1.{method}", "code": code}
        return registry.get_sample_value("pumice_refused_calls_total", labels)

    assert count("InspectionService/ListNodes", "UNAUTHENTICATED") == 1
    assert count("SchedulingService/Schedule", "PERMISSION_DENIED") == 1
    assert count("ClusterService/Connect", "PERMISSION_DENIED") == 1


def test_the_audit_log_has_a_limited_number_of_lines_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, metrics = ManualClock(), Metrics()
    audit = AuditLog(metrics, clock)
    for _ in range(MAX_LINES_PER_SECOND + 5):
        audit.record_refusal("/a/B", "x", Code.UNAUTHENTICATED, "no")
    assert len(caplog.records) == MAX_LINES_PER_SECOND
    clock.advance(1)
    audit.record_refusal("/a/B", "x", Code.UNAUTHENTICATED, "no")
    assert "5 refusals before this one were not logged" in caplog.records[-1].getMessage()
    labels = {"method": "/a/B", "code": "UNAUTHENTICATED"}
    counted = metrics.registry.get_sample_value("pumice_refused_calls_total", labels)
    assert counted == MAX_LINES_PER_SECOND + 6


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tokens: [", "line 1: invalid YAML"),
        ("tokens:\n- {name: a", "line 2: invalid YAML"),
        ("[]", "must be a mapping"),
        ("users: []", "with the keys 'tokens' and 'certificates'"),
        ("tokens: 3", "list of objects"),
        ("tokens: [{name: a, roles: [admin]}]", "sha256"),
        (f"tokens: [{{sha256: {digest('a')}, roles: [admin]}}]", "name is missing"),
        (f"tokens: [{{sha256: {digest('a')}, name: a, roles: [boss]}}]", "known roles: adapter"),
        (f"tokens: [{{sha256: {digest('a')}, name: a, roles: [admin], x: 1}}]", "unknown field"),
        (f"tokens: [{{sha256: {digest('a')}, name: a, roles: [boss]}}]", "unknown role 'boss'"),
        (f"tokens: [{{sha256: {digest('a')}, name: a, roles: admin}}]", "a list of roles"),
        ("certificates: [{name: a, roles: [admin], clusters: c}]", "list of names"),
        (
            "tokens:\n" + f"- {{sha256: {digest('a')}, name: a, roles: [admin]}}\n" * 2,
            r"tokens\[1\].sha256 repeats tokens\[0\].sha256",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "access.yaml"
    file.write_text(text)
    with pytest.raises(AccessFileError, match=problem):
        AccessFile(file, ManualClock())


async def test_a_stream_is_refused_when_its_first_message_was_heard(guarded: Guarded) -> None:
    """Refused at once, a client that writes just then would hear that its own write failed."""
    for number in range(400):
        channel, adapter = await adapter_of(guarded, "", "c1")
        for _ in range(number % 40):
            await asyncio.sleep(0)
        await adapter.send(hello=adapter.hello)
        assert (await adapter.ended_with())[0] is Code.UNAUTHENTICATED
        await channel.close()
