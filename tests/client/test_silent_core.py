"""A core that disappears without a word, as with a machine that is switched off."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc.aio
import pytest

from pumice.client import AsyncClient, ClientSettings, CoreUnavailableError, Session, channels
from tests.server.running import ScriptedAdapter, gang, node, queue


@pytest.fixture
def core() -> Iterator[tuple[str, int]]:
    """The address and the process of a core."""
    with TemporaryDirectory(prefix="pumice-") as folder:
        address = f"unix:{Path(folder)}/core.sock"
        command = (sys.executable, "-m", "pumice.cli", "core", "--listen", address)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert "listens" in process.stdout.readline()
            yield address, process.pid
            process.kill()


async def read_all(sessions: AsyncGenerator[Session, None]) -> None:
    async for _ in sessions:
        pass


async def test_a_watch_ends_when_the_core_is_silent(
    core: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")
    options = {**dict(channels._OPTIONS), **dict.fromkeys(names, 1_100)}
    assert set(names) <= dict(channels._OPTIONS).keys()
    monkeypatch.setattr(channels, "_OPTIONS", tuple(options.items()))
    address, pid = core
    async with (
        asyncio.timeout(60),
        grpc.aio.insecure_channel(address) as channel,
        AsyncClient(ClientSettings(address=address, retry_seconds=0.0)) as client,
    ):
        adapter = ScriptedAdapter(channel)
        await adapter.connect()
        await adapter.snapshot([queue(), node("n1")])
        async with aclosing(client.watch(decided_only=True)) as sessions:
            next_session = asyncio.ensure_future(anext(sessions))
            number = 0
            while not next_session.done():
                # Until the watch has begun, the sessions are not reported.
                number += 1
                await adapter.tell(*gang(f"job-{number}", 1, cpu=1))
                await adapter.decisions()
            assert (await next_session).binds
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(CoreUnavailableError):
                await read_all(sessions)
