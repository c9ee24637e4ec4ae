"""``pumice record`` beside a running core, reached as all commands reach it."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.server.core_environment import CoreEnvironment
from pumice.server.server import CoreServer, ServerOptions
from pumice.testing import assert_replay_identical
from tests.cli.commands import Ended, process
from tests.server.conftest import core, socket_folder
from tests.server.running import ManualClock, RunningCore, ScriptedAdapter, gang, node, queue

__all__ = ["core", "socket_folder"]


async def command(core: RunningCore, *arguments: object, **environment: str) -> Ended:
    """In a process of its own, which the environment tells where the core is."""
    environment.setdefault("PUMICE_ADDRESS", core.server.address)
    environment.setdefault("PUMICE_ATTEMPTS", "1")
    return await asyncio.to_thread(process, *arguments, **environment)


async def until_told(adapter: ScriptedAdapter, core: RunningCore, path: Path) -> None:
    """Sessions go on until the recording has begun."""
    for number in range(10_000):
        if path.exists():
            break
        await asyncio.sleep(0.01)
        await adapter.tell(*gang(f"job-{number}", 1))
        core.clock.advance(1)
    await adapter.tell(*gang("last", 1))
    core.clock.advance(1)


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
async def test_a_running_core_is_recorded(core: RunningCore, tmp_path: Path, redact: bool) -> None:
    adapter = await core.served([queue(), node("n1", 99_000)])
    await core.session(1)
    path = tmp_path / "live.pumice"
    flags = ["--redact"] if redact else []
    recording = asyncio.create_task(
        command(core, "record", path, "--seconds", "2", "--json", *flags)
    )
    await until_told(adapter, core, tmp_path / "live.plain.pumice" if redact else path)
    ended = await recording
    assert ended.code == 0, ended
    assert json.loads(ended.out)["sessions"] >= 1
    assert_replay_identical(path)
    assert [held.name for held in tmp_path.iterdir()] == ["live.pumice"]


async def test_an_unknown_cluster_is_answered_with_near_names(
    core: RunningCore, tmp_path: Path
) -> None:
    await core.served([queue()], cluster="production")
    ended = await command(core, "record", tmp_path / "x.pumice", "--cluster", "prodution")
    assert ended.code == 2
    assert "no cluster 'prodution'; did you mean production?" in ended.err
    assert not list(tmp_path.iterdir())


async def test_without_a_core_it_says_what_to_do(core: RunningCore, tmp_path: Path) -> None:
    ended = await command(
        core, "record", tmp_path / "x.pumice", PUMICE_ADDRESS=f"unix:{tmp_path}/none"
    )
    assert ended.code == 1
    assert "start one with 'pumice core'" in ended.err
    assert not list(tmp_path.iterdir())


@pytest.fixture
async def guarded(socket_folder: Path) -> AsyncIterator[RunningCore]:
    """A core that asks for tokens, and one cluster that was streamed to it before."""
    token = {"sha256": hashlib.sha256(b"secret").hexdigest(), "name": "night", "roles": ["admin"]}
    access = socket_folder / "access.yaml"
    access.write_text(yaml.safe_dump({"tokens": [token]}))
    env = CoreEnvironment(clock=ManualClock())
    server = CoreServer(ServerOptions(f"unix:{socket_folder}/core.sock", env=env, access=access))
    await server.start()
    clock: Any = env.clock
    yield RunningCore(server, env, clock)
    await server.stop()


async def test_the_token_is_sent(guarded: RunningCore, tmp_path: Path) -> None:
    path = tmp_path / "x.pumice"
    denied = await command(guarded, "record", path)
    assert (denied.code, "no bearer token was sent" in denied.err) == (2, True)
    known = await command(guarded, "record", path, PUMICE_TOKEN="secret")
    # Let in: there is only nothing to record.
    assert "no cluster is connected" in known.err
    (tmp_path / "token").write_text("secret\n")
    by_file = await command(guarded, "record", path, "--token-file", tmp_path / "token")
    assert by_file.err == known.err
