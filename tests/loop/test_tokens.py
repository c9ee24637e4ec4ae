"""An adapter before a core that asks for a bearer token: sent where nobody else can read it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pumice.adapters.kubernetes.commands import kubernetes_command
from pumice.adapters.replay.commands import replay_command
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.connect import ChannelFactory, TlsFiles, channel_factory
from pumice.adapters.runtime.errors import RefusedError
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.simulated.commands import simulated_command
from pumice.client.settings import ClientSettings
from pumice.server import tls
from pumice.server.core_environment import CoreEnvironment
from pumice.server.server import CoreServer, ServerOptions
from tests.adapters.fake_world import FakeWorld
from tests.loop.stage import CLUSTER, quick, until
from tests.server.certificates import Authority
from tests.server.running import ManualClock

COMMANDS = {
    "kubernetes": (kubernetes_command, []),
    "simulated": (simulated_command, []),
    "replay": (replay_command, [__file__]),
}


class Guarded:
    """A core that lets in who has the token, and the file that adapters have it from."""

    def __init__(self, folder: Path, *, over_tcp: bool) -> None:
        self._roles, self.token_file = folder / "access.yaml", folder / "token"
        self.clock = ManualClock()
        self.know("first")
        self.token_file.write_text("first\n")
        self._files: TlsFiles | None = None
        address, server_tls = f"unix:{folder}/core.sock", None
        if over_tcp:
            authority = Authority(folder)
            server_tls = tls.TlsFiles(*authority.issue("core", "core", "core"))
            address, self._files = "localhost:0", TlsFiles(authority.path, server_name="core")
        env = CoreEnvironment(clock=self.clock)
        options = ServerOptions(address, server_tls, env=env, access=self._roles)
        self.server = CoreServer(options)
        self._tasks: list[asyncio.Task[None]] = []

    def know(self, token: str) -> None:
        digest = hashlib.sha256(token.encode()).hexdigest()
        item = {"sha256": digest, "name": token, "roles": ["adapter"], "clusters": [CLUSTER]}
        self._roles.write_text(yaml.safe_dump({"tokens": [item]}))
        # The core looks into it once a second.
        self.clock.advance(2)

    def channels(self, *, token: bool = True) -> ChannelFactory:
        bearer = ClientSettings(token_file=str(self.token_file)).bearer if token else None
        return channel_factory(self.server.address, self._files, bearer=bearer)

    def start(self, channels: ChannelFactory) -> tuple[AdapterRuntime, "asyncio.Task[None]"]:
        runtime = AdapterRuntime(FakeWorld(), channels, quick())
        task = asyncio.create_task(runtime.run())
        self._tasks.append(task)
        return runtime, task

    async def close(self) -> None:
        await end_tasks(*self._tasks)
        await self.server.stop()


@pytest.fixture(params=[False, True], ids=["socket", "tls"])
async def guarded(folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Guarded]:
    made = Guarded(folder, over_tcp=request.param)
    await made.server.start()
    yield made
    await made.close()


async def test_who_has_the_token_is_let_in_and_nobody_else(guarded: Guarded) -> None:
    runtime, _ = guarded.start(guarded.channels())
    await until(lambda: runtime.is_served, "the core takes the stream")
    _, stranger = guarded.start(guarded.channels(token=False))
    with pytest.raises(RefusedError, match="UNAUTHENTICATED: no bearer token was sent"):
        await stranger


async def test_a_rotated_token_needs_no_restart(guarded: Guarded) -> None:
    runtime, task = guarded.start(guarded.channels())
    await until(lambda: runtime.is_served, "the core takes the stream")
    guarded.know("second")
    runtime.cut()
    # The core knows of it first; until the file has it too, the adapter comes again and again.
    refused = {"next": "refused"}
    before = runtime.metrics.counted("stream_ends", **refused)
    await until(
        lambda: runtime.metrics.counted("stream_ends", **refused) > before + 1, "it is refused"
    )
    assert not task.done()
    guarded.token_file.write_text("second")
    await until(lambda: runtime.is_served, "the core takes the stream again")


async def test_a_file_without_a_token_is_waited_for_once_it_had_one(guarded: Guarded) -> None:
    runtime, task = guarded.start(guarded.channels())
    await until(lambda: runtime.is_served, "the core takes the stream")
    guarded.token_file.write_text("")
    runtime.cut()
    await until(lambda: runtime.metrics.counted("stream_ends", next="again") > 2, "it tries")
    assert not task.done()
    guarded.token_file.write_text("first")
    await until(lambda: runtime.is_served, "the core takes the stream again")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "core.example:1"])
def test_a_token_never_goes_over_tcp_without_tls(address: str) -> None:
    with pytest.raises(ValueError, match="would be sent without encryption: use --tls-ca"):
        channel_factory(address, bearer=lambda: "token", insecure=True)


@pytest.mark.parametrize("word", COMMANDS)
@pytest.mark.parametrize(
    ("content", "address", "said"),
    [
        ("", "unix:/nowhere", "token_file {file}: is empty"),
        (
            "two words",
            "unix:/nowhere",
            "token_file {file}: contains spaces, line breaks or other characters",
        ),
        ("token", "127.0.0.1:1", "a token for 127.0.0.1:1 would be sent without encryption"),
        (None, "unix:/nowhere", "File '{file}' does not exist"),
    ],
)
def test_every_adapter_names_what_is_wrong_with_a_token(
    word: str, content: str | None, address: str, said: str, tmp_path: Path
) -> None:
    command, arguments = COMMANDS[word]
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    given = [*arguments, "--core", address]
    by_option = CliRunner().invoke(command, [*given, "--token-file", str(file)])
    by_variable = CliRunner().invoke(command, given, env={"PUMICE_TOKEN_FILE": str(file)})
    for result in (by_option, by_variable):
        assert result.exit_code == 2
        assert said.format(file=file) in result.output


@pytest.mark.parametrize("word", COMMANDS)
def test_every_adapter_takes_a_token_from_the_environment(word: str) -> None:
    command, arguments = COMMANDS[word]
    given = [*arguments, "--core", "127.0.0.1:1"]
    result = CliRunner().invoke(command, given, env={"PUMICE_TOKEN": "token"})
    assert result.exit_code == 2
    assert "a token for 127.0.0.1:1 would be sent without encryption" in result.output


@pytest.mark.parametrize("word", COMMANDS)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tls-cert", __file__, "--tls-key", __file__], "need --tls-ca"),
        (["--tls-ca", __file__, "--tls-cert", __file__], "are needed together"),
    ],
)
def test_every_adapter_wants_its_certificates_whole(
    word: str, options: list[str], said: str
) -> None:
    command, arguments = COMMANDS[word]
    result = CliRunner().invoke(command, [*arguments, "--core", "localhost:1", *options])
    assert result.exit_code == 2
    assert said in result.output
