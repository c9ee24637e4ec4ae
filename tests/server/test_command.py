"""``pumice core`` as a process: how it starts, ends and comes back."""

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from pumice.v1 import cluster_service_pb2
from tests.controlplane.guard import GUARD
from tests.server.running import ScriptedAdapter, gang, node, queue

RUN = (sys.executable, "-c", "from pumice.cli.main import main; main()")
Start = Callable[..., subprocess.Popen[str]]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, "core", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def start(socket_folder: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        given = arguments or ("--listen", f"unix:{socket_folder}/core.sock")
        process = subprocess.Popen(
            [*RUN, "core", *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        GUARD.watch(process)
        assert process.stdout is not None
        process.first_line = process.stdout.readline()  # type: ignore[attr-defined]
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


async def connected(folder: Path, **hello: object) -> tuple[ScriptedAdapter, grpc.aio.Channel]:
    channel = grpc.aio.insecure_channel(
        f"unix:{folder}/core.sock", options=(("grpc.use_local_subchannel_pool", 1),)
    )
    return ScriptedAdapter(channel, **hello), channel  # type: ignore[arg-type]


def test_a_free_port_of_the_pages_is_printed(start: Start, socket_folder: Path) -> None:
    listen = ("--listen", f"unix:{socket_folder}/core.sock")
    process = start(*listen, "--metrics-address", "127.0.0.1:0")
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"metrics and probes on (http://127\.0\.0\.1:([0-9]+))\n", line)
    assert found is not None, line
    assert found[2] != "0"
    with urllib.request.urlopen(f"{found[1]}/livez", timeout=30) as page:
        assert page.status == 200


async def test_a_core_decides_and_ends_when_it_is_told_to(
    start: Start, socket_folder: Path
) -> None:
    process = start()
    adapter, channel = await connected(socket_folder)
    await adapter.connect()
    await adapter.snapshot([queue(), node("n1"), *gang("job", 2)])
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0", "job-1"]
    process.send_signal(signal.SIGTERM)
    farewell = await adapter.next("go_away")
    assert farewell.reason == cluster_service_pb2.GO_AWAY_REASON_SHUTTING_DOWN
    await channel.close()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert not (socket_folder / "core.sock").exists()


async def test_a_core_that_was_killed_comes_back_with_nothing(
    start: Start, socket_folder: Path
) -> None:
    first = start()
    adapter, channel = await connected(socket_folder)
    welcome = await adapter.connect()
    await adapter.snapshot([queue(), node("n1"), *gang("job", 2)])
    made = await adapter.decisions()
    first.kill()
    assert (await adapter.ended_with())[0] is grpc.StatusCode.UNAVAILABLE
    await channel.close()
    start()
    again, channel = await connected(socket_folder, last_acknowledged_seq=adapter.seq)
    anew = await again.connect()
    assert anew.core_id != welcome.core_id
    assert anew.mode == cluster_service_pb2.WELCOME_MODE_SNAPSHOT
    await again.snapshot([queue(), node("n1"), *gang("job", 2)])
    # The same orders under other names: outcomes of the old ones mean nothing here.
    orders = await again.decisions()
    assert [d.bind for d in orders] == [d.bind for d in made]
    assert not {d.id for d in orders} & {d.id for d in made}
    await channel.close()


def test_any_free_port_is_told(start: Start) -> None:
    process = start("--listen", "127.0.0.1:0")
    line: str = process.first_line  # type: ignore[attr-defined]
    assert line.startswith("pumice core listens on 127.0.0.1:")
    assert not line.strip().endswith(":0")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--listen", "0.0.0.0:1"), "--insecure"),
        (("--listen", "nonsense"), "HOST:PORT"),
        (("--listen", "unix:/nowhere/at/all"), "does not exist"),
        (("--tls-key", __file__), "--tls-cert and --tls-key"),
        (("--tls-cert", __file__, "--tls-key", __file__), "PEM"),
    ],
)
def test_what_cannot_be_started_is_said_in_a_line(arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
