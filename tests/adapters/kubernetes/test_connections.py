"""The connection pool: keepalive, expiry, and responses that are not what they should be."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from pumice.adapters.kubernetes.api import Access
from pumice.adapters.kubernetes.connections import ConnectionPool, Reply
from pumice.adapters.kubernetes.errors import LostAnswerError, UnreachableError
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import end_tasks
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi


class Server:
    """Answers every request with the same bytes, and counts connections."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.opened = self.closed = 0
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            return
        finally:
            self.closed += 1
            writer.close()


@pytest.fixture
async def started() -> AsyncIterator[
    Callable[..., "asyncio.Future[tuple[Server, ConnectionPool]]"]
]:
    closing: list[asyncio.Server] = []
    pools: list[ConnectionPool] = []

    async def start(answer: bytes, idle_seconds: float) -> tuple[Server, ConnectionPool]:
        server = Server(answer)
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        closing.append(listening)
        port = listening.sockets[0].getsockname()[1]
        pool = ConnectionPool(Access(f"http://127.0.0.1:{port}"), 4, "test", idle_seconds)
        pools.append(pool)
        return server, pool

    yield lambda answer=GOOD, idle_seconds=60.0: asyncio.ensure_future(start(answer, idle_seconds))
    for pool in pools:
        await pool.close()
    for listening in closing:
        listening.close()


GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Started = Callable[..., "asyncio.Future[tuple[Server, ConnectionPool]]"]


async def call(pool: ConnectionPool) -> Reply:
    return await pool.exchange("GET", "/", "", b"", 2.0, None)


async def test_idle_connections_are_closed_without_another_call(started: Started) -> None:
    server, pool = await started(idle_seconds=0.1)
    assert (await call(pool)).body == b"ok"
    assert (await call(pool)).body == b"ok"
    assert (server.opened, server.closed) == (1, 0)
    await until(lambda: server.closed == 1)
    assert (await call(pool)).body == b"ok"
    assert server.opened == 2


async def test_connections_of_calls_find_out_that_the_other_side_is_gone(started: Started) -> None:
    _, pool = await started()
    await call(pool)
    (connection,) = pool._all
    assert connection._transport is not None
    check_options(connection._transport.get_extra_info("socket"))


async def test_connections_of_watches_find_out_that_the_other_side_is_gone(
    session: ApiSession, fake_api: FakeApi
) -> None:
    query = {"watch": "1", "resourceVersion": "100"}
    async with session.stream("/api/v1/nodes", query, 5.0, 5.0):
        assert session._http is not None
        connector = session._http.connector
        assert connector is not None
        (held,) = connector._acquired
        assert held.transport is not None
        check_options(held.transport.get_extra_info("socket"))


def check_options(found: socket.socket) -> None:
    assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    if hasattr(socket, "TCP_KEEPIDLE"):
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 25_000


@pytest.mark.parametrize(
    "answer",
    [
        b"\r\n\r\n",
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\nabcd\r\n0\r\n\r\n",
    ],
)
async def test_what_is_not_a_response_is_an_error_at_once(started: Started, answer: bytes) -> None:
    _, pool = await started(answer)
    with pytest.raises(LostAnswerError):
        await call(pool)
    assert not pool._all


async def test_warnings_of_a_response_are_kept(started: Started) -> None:
    lines = (
        b'Warning: 299 - "unknown field \\"spec.x\\""',
        b'WARNING: 299 - "other"',
        b"Warning: not a warning",
    )
    answer = b"HTTP/1.1 201 Created\r\n%s\r\nContent-Length: 2\r\n\r\nok" % b"\r\n".join(lines)
    _, pool = await started(answer)
    assert (await call(pool)).warnings == ('unknown field "spec.x"', "other")
    _, other = await started()
    assert (await call(other)).warnings == ()


async def test_two_responses_to_one_call_do_not_shift_the_next(started: Started) -> None:
    second = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"
    server, pool = await started(GOOD + second)
    for _ in range(3):
        assert (await call(pool)).body == b"ok"
    assert server.opened == 3


async def test_a_call_that_waits_for_a_connection_is_not_overtaken(started: Started) -> None:
    server, pool = await started()
    calls_in_a_row = 50
    ended: list[str] = []

    async def go_on() -> None:
        for _ in range(calls_in_a_row):
            await call(pool)
        ended.append("one of four")

    async def wait_its_turn() -> None:
        await call(pool)
        ended.append("the waiting one")

    four = [asyncio.create_task(go_on()) for _ in range(4)]
    await until(lambda: server.opened == 4)
    await asyncio.gather(*four, asyncio.create_task(wait_its_turn()))
    assert ended[0] == "the waiting one"
    assert server.opened == 4


async def test_a_call_that_is_cancelled_as_it_gets_a_connection_passes_it_on(
    started: Started,
) -> None:
    _, pool = await started()
    four = [await pool._connection(2.0, urgent=False) for _ in range(4)]
    first, second = (asyncio.create_task(call(pool)) for _ in range(2))
    await asyncio.sleep(0)
    pool._release(four.pop())
    first.cancel()
    assert (await second).body == b"ok"
    assert first.cancelled()


async def test_connections_can_be_opened_before_the_first_call(started: Started) -> None:
    server, pool = await started()
    await pool.open_all(2.0)
    assert server.opened == 4
    await asyncio.gather(*(call(pool) for _ in range(4)))
    await pool.open_all(2.0)
    assert server.opened == 4


async def test_connections_that_cannot_be_opened_are_the_problem_of_the_first_call() -> None:
    pool = ConnectionPool(Access("http://127.0.0.1:1"), 4, "test")
    await pool.open_all(2.0)
    with pytest.raises(UnreachableError):
        await call(pool)


async def test_calls_that_end_while_they_connect_let_others_connect(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, pool = await started()
    loop = asyncio.get_running_loop()
    connect, never = loop.create_connection, asyncio.Event()

    async def hang(*_: object, **__: object) -> None:
        await never.wait()

    with monkeypatch.context() as patch:
        patch.setattr(loop, "create_connection", hang)
        stuck = [asyncio.create_task(call(pool)) for _ in range(4)]
        waiting = asyncio.create_task(call(pool))
        await until(lambda: pool._queue)
    assert loop.create_connection == connect
    # A caller gave up before the connection was open.
    await end_tasks(*stuck)
    reply = await asyncio.wait_for(waiting, 5)
    assert reply.status == 200
