"""Calls: credentials, limits, lost answers, and the errors that people read."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from pumice.adapters.kubernetes.api import Access, AccessSource
from pumice.adapters.kubernetes.connections import ConnectionPool
from pumice.adapters.kubernetes.errors import (
    ApiError,
    BadCredentialsError,
    LostAnswerError,
    MissingRightsError,
    NoAccessError,
    NotLeadingError,
    UnreachableError,
)
from pumice.adapters.kubernetes.process import check
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.refusals import failure
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.metrics import Metrics
from tests.adapters.fake_clock import FakeClock
from tests.adapters.kubernetes.conftest import FastClock, Tokens
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import node

CONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {tokenFile: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


async def test_credentials_are_loaded_again_when_they_are_refused(
    fake_api: FakeApi, tokens: Tokens, session: ApiSession
) -> None:
    fake_api.put("nodes", node("n1"))
    fake_api.token = tokens.token = "second"
    calls = [session.call("GET", "/api/v1/nodes/n1") for _ in range(8)]
    assert all(await asyncio.gather(*calls))
    # Eight refusals, one renewal.
    assert tokens.loads == 2


async def test_credentials_that_stay_bad_are_an_error(
    fake_api: FakeApi, session: ApiSession
) -> None:
    fake_api.token = "secret"
    with pytest.raises(BadCredentialsError, match="expired"):
        await session.call("GET", "/version")
    with pytest.raises(BadCredentialsError):
        await check(session, RetryPolicy(FastClock(), Metrics()))


async def test_credentials_that_stay_bad_are_not_loaded_for_every_call(
    fake_api: FakeApi, tokens: Tokens, session: ApiSession
) -> None:
    fake_api.token = "secret"
    for _ in range(50):
        with pytest.raises(BadCredentialsError):
            await session.call("GET", "/version")
        with pytest.raises(BadCredentialsError):
            await session.page("/version", {})
    assert tokens.loads <= 3


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_a_redirection_is_a_refusal_and_not_a_success(
    fake_api: FakeApi, session: ApiSession, status: int
) -> None:
    headers = {"Location": f"{fake_api.server}/version"}
    trouble = Trouble("POST", "/pods", times=2, status=status, headers=headers)
    fake_api.trouble += [trouble, Trouble("GET", "/pods", times=2, status=status, headers=headers)]
    with pytest.raises(ApiError):
        await session.call("POST", "/api/v1/namespaces/ns/pods", b"{}")
    with pytest.raises(ApiError):
        await session.page("/api/v1/pods", {})


async def test_a_refusal_that_breaks_off_is_a_refusal(session: ApiSession, tokens: Tokens) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 1000\r\n\r\n{")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    tokens.server = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    tokens.fingerprint = "two"
    await session.open()
    with pytest.raises(ApiError) as raised:
        await session.page("/api/v1/pods", {})
    assert raised.value.status == 500
    server.close()


@pytest.mark.parametrize("asked", ["1e9", "99999999", "-5", "soon", "²"])
def test_no_server_asks_for_longer_than_two_minutes(asked: str) -> None:
    assert 0 <= failure(429, b"{}", asked).retry_after <= 120
    body = b'{"details": {"retryAfterSeconds": 1000000}}'
    assert failure(429, body).retry_after == 120


async def test_a_watch_renews_credentials_too(
    fake_api: FakeApi, tokens: Tokens, session: ApiSession
) -> None:
    fake_api.token = tokens.token = "second"
    assert b"items" in await session.page("/api/v1/nodes", {})


async def test_a_refusal_names_verb_and_resource(fake_api: FakeApi, session: ApiSession) -> None:
    message = (
        'podgroups.scheduling.volcano.sh is forbidden: User "u" cannot patch resource "podgroups"'
        ' in API group "scheduling.volcano.sh" in the namespace "ns"'
    )
    fake_api.trouble.append(Trouble("GET", "/", status=403, message=message))
    with pytest.raises(MissingRightsError) as raised:
        await session.call("GET", "/api/v1/nodes")
    assert raised.value.right == "patch on podgroups.scheduling.volcano.sh"
    assert "in namespace ns" in str(raised.value)


async def test_an_answer_that_is_lost_is_told_from_a_server_that_is_not_there(
    fake_api: FakeApi, session: ApiSession
) -> None:
    fake_api.trouble.append(Trouble("GET", "/version", loses_answer=True))
    with pytest.raises(LostAnswerError):
        await session.call("GET", "/version")
    fake_api.trouble.append(Trouble("GET", "/version", seconds=5))
    with pytest.raises(LostAnswerError, match=r"within 0\.05 s"):
        await session.call("GET", "/version", seconds=0.05)
    # Neither breaks the next one.
    assert await session.call("GET", "/version")

    lane = ConnectionPool(Access("http://127.0.0.1:1"), 1, "test")
    with pytest.raises(UnreachableError, match="check the address"):
        await lane.exchange("GET", "/", "", b"", 1.0, None)


async def test_more_calls_than_connections_wait_their_turn(
    fake_api: FakeApi, session: ApiSession
) -> None:
    fake_api.put("nodes", node("n1"))
    answers = await asyncio.gather(*(session.call("GET", "/api/v1/nodes/n1") for _ in range(50)))
    assert len(answers) == 50
    assert session._pool is not None
    # The limit of these tests.
    assert len(session._pool._all) == 4


async def test_an_urgent_call_waits_for_no_other(fake_api: FakeApi, session: ApiSession) -> None:
    fake_api.trouble.append(Trouble("GET", "/version", times=4, seconds=1))
    calls = [asyncio.create_task(session.call("GET", "/version")) for _ in range(8)]
    await asyncio.sleep(0.05)
    fake_api.put("nodes", node("n1"))
    assert await session.call("GET", "/api/v1/nodes/n1", seconds=0.5, urgent=True)
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_new_certificates_take_new_connections(
    fake_api: FakeApi, tokens: Tokens, session: ApiSession
) -> None:
    fake_api.token = tokens.token = "second"
    tokens.fingerprint = "other"
    assert await session.call("GET", "/version")
    assert b"items" in await session.page("/api/v1/nodes", {})


async def test_cancelled_calls_leave_the_pool_usable(
    fake_api: FakeApi, session: ApiSession
) -> None:
    fake_api.trouble.append(Trouble("GET", "/version", times=6, seconds=0.2))
    calls = [asyncio.create_task(session.call("GET", "/version")) for _ in range(12)]
    await asyncio.sleep(0.05)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    fake_api.trouble.clear()
    assert await session.call("GET", "/version")


async def test_chunked_answers_are_put_together(session: ApiSession, fake_api: FakeApi) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for part in (head, b"5\r\nhel", b"lo\r\n6;x\r\n world\r\n0", b"\r\n\r\n"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.005)
        # Until the client hangs up, which it does without a goodbye.
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        finished.set()

    finished = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lane = ConnectionPool(Access(f"http://127.0.0.1:{port}"), 1, "test")
    reply = await lane.exchange("GET", "/", "", b"", 2.0, None)
    assert (reply.status, reply.body) == (200, b"hello world")
    await lane.close()
    await finished.wait()
    server.close()
    await server.wait_closed()


async def test_the_fence_is_asked_before_a_call_leaves(
    fake_api: FakeApi, session: ApiSession
) -> None:
    with pytest.raises(NotLeadingError):
        await session.call("GET", "/version", fence=lambda: False)
    assert not fake_api.calls


async def test_throttling_says_how_long(fake_api: FakeApi, session: ApiSession) -> None:
    fake_api.trouble.append(Trouble("GET", "/version", status=429, headers={"Retry-After": "7"}))
    with pytest.raises(ApiError) as raised:
        await session.call("GET", "/version")
    assert raised.value.retry_after == 7
    assert raised.value.is_transient


async def test_the_rate_is_kept_after_the_burst() -> None:
    clock = FakeClock()
    bucket = TokenBucket(10, 3, clock)
    for _ in range(3):
        await bucket.acquire()
    assert clock.sleeps == []
    waits = [asyncio.create_task(bucket.acquire()) for _ in range(2)]
    await clock.advance(1)
    assert clock.sleeps == pytest.approx([0.1, 0.2])
    await asyncio.gather(*waits)


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    config = tmp_path / "config"
    config.write_text(CONFIG % token)
    source = AccessSource(str(config))
    assert source.load().authorization == "Bearer one"
    token.write_text("two\n")
    assert source.load().authorization == "Bearer two"


def test_an_exec_plugin_is_run(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"made"}}\'\n'
    )
    plugin.chmod(0o755)
    config = tmp_path / "config"
    user = (
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: %s, interactiveMode: Never}}"
    )
    config.write_text(CONFIG.replace("{tokenFile: %s}", user % plugin))
    assert AccessSource(str(config)).load().authorization == "Bearer made"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file"),
        ("", "cannot be used"),
        ("apiVersion: v1\ncurrent-context: nope\n", "cannot be used"),
        ("{[", "cannot be"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, text: str | None, said: str
) -> None:
    config = tmp_path / "config"
    if text is not None:
        config.write_text(text)
    with pytest.raises(NoAccessError, match=said):
        AccessSource(str(config)).load()


def test_nothing_at_all_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoAccessError, match="use --kubeconfig"):
        AccessSource().load()
    assert AccessSource(master="http://127.0.0.1:8080").load().server == "http://127.0.0.1:8080"


def test_a_proxy_is_used_except_where_it_must_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    config = tmp_path / "config"
    config.write_text(
        (CONFIG % token).replace('"http://127.0.0.1:1"', '"http://h:1", proxy-url: "http://p:2"')
    )
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert AccessSource(str(config)).load().proxy == "http://p:2"


def test_in_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    # Not in a pod after all: the message says which part is missing.
    with pytest.raises(NoAccessError, match="token file"):
        AccessSource().load()
