"""The page about asking the core: its commands run against a real core."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from pumice.server.limits import Limits
from tests.cli.commands import pumice
from tests.server import asking, running
from tests.server.conftest import core, socket_folder
from tests.server.running import RunningCore

__all__ = ["core", "socket_folder"]

PAGE = (Path(__file__).parents[2] / "docs/how-to/ask-the-core.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line[2:], comments=True)
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("$ ")
]
CONF = 'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n'
# Commands without an end, with what they print first.
_ENDLESS = ("top", "watch")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


async def served(core: RunningCore) -> Any:
    """The cluster of the page: two jobs, one of which waits, and an old cluster."""
    old = await core.served([running.queue()], cluster="old-cluster")
    await old.close()
    live = [running.queue(), running.node("n1"), running.node("n2")]
    train = running.gang("train", 4)
    for number, item in enumerate(train[1:]):
        item.pod.name = f"train-worker-{number}"
    return await core.served([*live, *train], cluster="prod")


def written(folder: Path) -> None:
    (folder / "job.yaml").write_text(yaml.safe_dump(asking.job("other", 1)))
    (folder / "cluster.yaml").write_text(yaml.safe_dump(asking.node("n1")))
    (folder / "new-scheduler-conf.yaml").write_text(CONF)


@pytest.mark.parametrize(
    "command",
    [each for each in COMMANDS if each[0] == "pumice" and each[1] not in _ENDLESS],
    ids=" ".join,
)
async def test_a_command_of_the_page_runs(
    core: RunningCore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    await served(core)
    await core.session(1, cluster="prod")
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    monkeypatch.setenv("PUMICE_ADDRESS", core.server.address)
    if command[1] != "forget":
        monkeypatch.setenv("PUMICE_CLUSTER", "prod")
    ended = await asyncio.to_thread(pumice, capsys, *command[1:])
    assert ended.code in (0, 1), ended
    assert ended.err == ""
    assert ended.out


def test_the_other_commands_of_the_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        if command[0] == "pumice":
            assert pumice(capsys, command[1], "--help").code == 0
    others = {each[0] for each in COMMANDS} - {"pumice"}
    assert others == {"grpcurl", "openssl", "tr"}


async def test_reflection_and_health_answer_as_the_page_says(core: RunningCore) -> None:
    await served(core)
    await core.session(1, cluster="prod")
    channel: Any = core.channel()
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
    for command in COMMANDS:
        if command[0] == "grpcurl" and "describe" in command:
            symbol = command[-1]
            asked.append(reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol))
    answers = [each async for each in stub.ServerReflectionInfo(iter(asked))]
    names = {each.name for each in answers[0].list_services_response.service}
    assert {"pumice.v1.SchedulingService", "grpc.health.v1.Health"} <= names
    for each in answers[1:]:
        assert each.file_descriptor_response.file_descriptor_proto, each
    assert len(answers) == 3
    health: Any = health_pb2_grpc.HealthStub(channel)
    for service in ("", "pumice.v1.SchedulingService", "cluster/prod"):
        found = await health.Check(health_pb2.HealthCheckRequest(service=service))
        assert found.status == health_pb2.HealthCheckResponse.SERVING
    gone = await health.Check(health_pb2.HealthCheckRequest(service="cluster/old-cluster"))
    assert gone.status == health_pb2.HealthCheckResponse.NOT_SERVING


def test_the_limits_of_the_page_are_those_of_the_core() -> None:
    limits = Limits()
    text = " ".join(section("From a program").split())
    megabytes = limits.frontend_message_bytes // 2**20
    assert (
        f"{limits.trial_objects:,} objects and {megabytes} MiB per request or response, "
        f"{limits.trial_sessions:,} sessions, {limits.trial_timeout_ns // 10**9} s, four requests in "
        f"progress and {limits.trials_waiting} waiting"
    ) in text
    assert limits.trials_at_once == 4
