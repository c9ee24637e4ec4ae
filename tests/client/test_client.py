"""The client library against a running core: the same for threads and for asyncio."""

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from pumice.client import (
    AsyncClient,
    Client,
    ClientSettings,
    ClosedError,
    CoreUnavailableError,
    DeadlineExceededError,
    HandshakeError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    PodGroupPhase,
    Stage,
)
from pumice.client.calls import Caller
from pumice.client.errors import ClientError, ErrorDetails
from pumice.client.retries import Deadline, is_retryable, retrying
from pumice.server.limits import Limits
from pumice.v1.inspection_service_pb2 import ListQueuesRequest
from tests.server.running import (
    RunningCore,
    configuration,
    gang,
    node,
    queue,
    running_core,
)

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["threads", "asyncio"])
async def ask(request: pytest.FixtureRequest, core: RunningCore) -> AsyncIterator[Ask]:
    """Calls a method of either client by its name."""
    settings = ClientSettings(address=core.server.address, retry_seconds=0)
    if request.param == "asyncio":
        async with AsyncClient(settings) as client:
            yield lambda method, *args, **named: getattr(client, method)(*args, **named)
    else:
        with Client(settings) as plain:
            yield lambda method, *args, **named: asyncio.to_thread(
                getattr(plain, method), *args, **named
            )


async def test_a_live_cluster_is_asked(core: RunningCore, ask: Ask) -> None:
    adapter = await core.served([queue(), node("n1")])
    result = await ask("schedule", gang("job", 2))
    assert [(bind.pod, bind.node, bind.job) for bind in result.binds] == [
        ("team/job-0", "n1", "team/job"),
        ("team/job-1", "n1", "team/job"),
    ]
    assert result.based_on_seq == adapter.seq
    assert {share.name for share in result.queues_after} == {"default"}


async def test_objects_of_the_request_are_enough(core: RunningCore, ask: Ask) -> None:
    result = await ask("schedule_inline", [queue(), node("n1"), *gang("job", 9)])
    assert not result.binds
    (wait,) = result.waits
    assert wait.job == "team/job"
    assert "fit" in wait.why


async def test_an_explanation_comes_in_words(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), node("n1"), *gang("job", 9)])
    await core.session(1)
    found = await ask("explain_job", "team/job")
    assert found.sentence.startswith("team/job waits")
    assert found.phase is PodGroupPhase.INQUEUE
    assert [stage.stage for stage in found.stages][:2] == [Stage.QUEUE, Stage.QUOTA]
    assert found.history[0].current
    assert (await ask("explain_pod", "team/job-0")).pod == "job-0"


async def test_what_there_is_is_listed(core: RunningCore, ask: Ask) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 1)])
    await adapter.decisions()
    assert [held.name for held in await ask("list_queues")] == ["default"]
    assert [held.name for held in await ask("list_jobs")] == ["job"]
    assert await ask("list_jobs", namespace="other") == []
    assert [held.name for held in await ask("list_nodes")] == ["n1"]
    assert [held.number for held in await ask("list_sessions")] == [1]
    assert [bind.pod for bind in (await ask("get_session")).binds] == ["team/job-0"]
    assert (await ask("get_config")).hash
    assert (await ask("check_config", "nonsense")).valid is False


async def test_pages_are_put_together(
    core: RunningCore, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.client.calls._PAGE_SIZE", 2)
    await core.served([queue(), *(node(f"n{i}") for i in range(5))])
    assert [held.name for held in await ask("list_nodes")] == [f"n{i}" for i in range(5)]


async def test_errors_say_what_is_near_and_what_is_wrong(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), *gang("training", 1)])
    with pytest.raises(NotFoundError) as missing:
        await ask("explain_job", "team/trainign")
    assert missing.value.nearest_names == ("team/training",)
    wrong = await ask("schedule_inline", [node("n1", cpu=-1)])
    assert [(bad.kind, bad.key, bad.severity) for bad in wrong.errors] == [("Node", "n1", "error")]
    bad = configuration("actions: nonsense").configuration
    with pytest.raises(InvalidRequestError) as refused:
        await ask("schedule_inline", [queue()], configuration=bad)
    assert refused.value.problems


async def test_a_request_that_is_too_large_is_told_with_the_limit(ask: Ask) -> None:
    heavy = gang("job", 1)
    heavy[1].pod.annotations["a"] = "x" * 17 * 1024 * 1024
    with pytest.raises(LimitExceededError, match="exceeds the limit of 16777216") as caught:
        await ask("schedule_inline", heavy)
    assert caught.value.given > 17 * 1024 * 1024
    assert not is_retryable(caught.value)


async def test_a_request_id_is_idempotent(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), node("n1")])
    first = await ask("schedule", gang("job", 1), request_id="mine")
    again = await ask("schedule", gang("job", 1), request_id="mine")
    assert first == again
    with pytest.raises(InvalidRequestError):
        await ask("schedule", gang("job", 2), request_id="mine")


async def test_sessions_are_watched_by_either_client(core: RunningCore) -> None:
    settings = ClientSettings(address=core.server.address)
    adapter = await core.served([queue(), node("n1"), *gang("one", 1)])
    await adapter.decisions()
    # It is told to those who watch after it was sent to the adapter.
    await core.session(1)

    def first() -> str:
        with Client(settings) as client, client.watch(decided_only=True) as sessions:
            return next(sessions).binds[0].pod

    watching = asyncio.create_task(asyncio.to_thread(first))
    async with AsyncClient(settings) as client:
        stream = client.watch(decided_only=True)
        own = asyncio.ensure_future(anext(stream))
        for number in range(2, 200):
            await adapter.tell(*gang(f"job{number}", 1, cpu=1))
            core.clock.advance(1)
            await asyncio.sleep(0.05)
            if watching.done() and own.done():
                break
        assert (await watching).startswith("team/job")
        assert (await own).binds
        await stream.aclose()


async def test_a_watcher_is_told_when_the_core_does_not_come_back(socket_folder: Path) -> None:
    async with running_core(socket_folder) as core:
        await core.served([queue()])
        await core.session(1)
        settings = ClientSettings(address=core.server.address, retry_seconds=0)
        async with AsyncClient(settings) as client:
            sessions = client.watch(after=-1)
            assert (await anext(sessions)).summary.number == 1
            await core.server.stop()
            with pytest.raises(CoreUnavailableError, match="shutting down"):
                await anext(sessions)


async def test_a_watch_resumes_at_a_restarted_core(socket_folder: Path) -> None:
    """Before the adapter is back, the new core does not even know the cluster."""
    settings = ClientSettings(address=f"unix:{socket_folder}/core.sock")
    async with AsyncClient(settings) as client:
        async with running_core(socket_folder) as core:
            await core.served([queue(), node("n1"), *gang("one", 1)])
            await core.session(1)
            sessions = client.watch(after=-1, timeout_seconds=60)
            assert (await anext(sessions)).binds[0].pod == "team/one-0"
        resumed = asyncio.ensure_future(anext(sessions))
        await asyncio.sleep(0.3)
        async with running_core(socket_folder) as core:
            await asyncio.sleep(0.5)
            adapter = await core.served([queue(), node("n1")])
            for number in range(200):
                await adapter.tell(*gang(f"job{number}", 1, cpu=1))
                core.clock.advance(1)
                await asyncio.sleep(0.05)
                if resumed.done():
                    break
            assert resumed.done()
            assert (await resumed).summary.number >= 1
            await sessions.aclose()


async def test_a_refused_connection_is_retried_for_the_whole_time(tmp_path: Path) -> None:
    """Each refusal takes a millisecond, so a number of attempts would be used up at once."""
    settings = ClientSettings(address=f"unix:{tmp_path}/none.sock", retry_seconds=1.5)
    start = time.monotonic()
    with Client(settings) as client, pytest.raises(CoreUnavailableError):
        await asyncio.to_thread(client.list_queues)
    assert 0.6 < time.monotonic() - start < 10
    patient = replace(settings, retry_seconds=600)
    async with AsyncClient(patient) as other:
        for _ in range(2):
            with pytest.raises(CoreUnavailableError):
                await other.list_queues(timeout_seconds=1)
    assert time.monotonic() - start < 300


async def test_a_retry_without_time_left_keeps_the_failure_before_it(tmp_path: Path) -> None:
    """The process may sleep between two attempts: the core is absent, and not slow."""
    settings = ClientSettings(address=f"unix:{tmp_path}/none.sock")
    caller, deadline = Caller(settings), Deadline(30)
    attempts = 0

    async def absent(request: object, **arguments: object) -> object:
        nonlocal attempts
        attempts += 1
        deadline._end = 0.0 if attempts == 2 else deadline._end
        code = grpc.StatusCode.UNAVAILABLE if attempts == 1 else grpc.StatusCode.DEADLINE_EXCEEDED
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "no socket")

    with pytest.raises(CoreUnavailableError):
        await caller.call(absent, ListQueuesRequest(), deadline)  # type: ignore[arg-type]
    assert attempts == 2
    await caller.close()


async def test_a_core_that_starts_later_answers_the_first_call(socket_folder: Path) -> None:
    settings = ClientSettings(address=f"unix:{socket_folder}/core.sock")
    async with AsyncClient(settings) as client:
        asking = asyncio.ensure_future(client.check_config(""))
        await asyncio.sleep(1.0)
        async with running_core(socket_folder):
            assert (await asking).valid


async def test_every_call_can_name_its_cluster(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), node("n1")])
    assert [held.name for held in await ask("list_nodes", cluster="c1")] == ["n1"]
    for call in (
        ask("list_queues", cluster="c2"),
        ask("list_jobs", cluster="c2"),
        ask("list_nodes", cluster="c2"),
        ask("list_sessions", cluster="c2"),
        ask("get_session", cluster="c2"),
        ask("get_config", cluster="c2"),
        ask("explain_job", "team/job", cluster="c2"),
        ask("explain_pod", "team/job", cluster="c2"),
        ask("schedule", [], cluster="c2"),
    ):
        with pytest.raises(NotFoundError, match="c2"):
            await call


def test_a_stream_is_closed_by_another_thread(socket_folder: Path) -> None:
    settings = ClientSettings(address=f"unix:{socket_folder}/none.sock")
    with Client(settings) as client:
        sessions = client.watch()
        closing = threading.Timer(0.3, sessions.close)
        closing.start()
        assert list(sessions) == []
        closing.join()


def test_a_closed_client_says_so(socket_folder: Path) -> None:
    client = Client(ClientSettings(address=f"unix:{socket_folder}/none.sock"))
    client.close()
    client.close()
    with pytest.raises(ClosedError, match="the client is closed"):
        client.list_queues()


async def test_a_core_that_comes_back_answers_the_same_call(core: RunningCore) -> None:
    """The cluster is not complete at first: the call waits for it instead of failing."""
    adapter = core.adapter()
    await adapter.connect()
    async with AsyncClient(ClientSettings(address=core.server.address)) as client:
        asking = asyncio.create_task(client.list_nodes())
        await asyncio.sleep(0.1)
        await adapter.snapshot([queue(), node("n1")])
        assert [held.name for held in await asking] == ["n1"]


async def test_time_runs_out(core: RunningCore) -> None:
    settings = ClientSettings(address=core.server.address, timeout_seconds=1e-6)
    async with AsyncClient(settings) as client:
        with pytest.raises(DeadlineExceededError, match=r"no answer from .*unix:.* within 1e-06 s"):
            await client.check_config("")


@pytest.mark.parametrize(
    ("error", "repeated"),
    [
        (CoreUnavailableError, True),
        (DeadlineExceededError, False),
        (HandshakeError, False),
        (NotFoundError, False),
        (InvalidRequestError, False),
        (LimitExceededError, False),
        (ClientError, False),
    ],
)
def test_only_what_may_be_over_soon_is_repeated(error: type[ClientError], repeated: bool) -> None:
    assert is_retryable(error("")) is repeated


def test_a_busy_core_is_asked_again_and_a_too_large_request_is_not() -> None:
    assert is_retryable(LimitExceededError("", ErrorDetails(retry_after_seconds=0.1)))
    assert not is_retryable(LimitExceededError("", ErrorDetails(limit_name="objects")))


def test_every_error_has_advice() -> None:
    def tree(kind: type[ClientError]) -> list[type[ClientError]]:
        return [kind, *(each for below in kind.__subclasses__() for each in tree(below))]

    assert len(tree(ClientError)) > 10
    for kind in tree(ClientError):
        assert kind("").advice


async def test_a_busy_core_is_asked_as_long_as_a_call_may_take(socket_folder: Path) -> None:
    """More at once than the core takes: all of them are answered, in time."""
    limits = Limits(trials_at_once=1, trials_waiting=1)
    async with running_core(socket_folder, limits) as core:
        settings = ClientSettings(address=core.server.address, retry_seconds=0, timeout_seconds=60)
        async with AsyncClient(settings) as client:
            objects = [queue(), node("n1"), *gang("job", 1)]
            found = await asyncio.gather(*(client.schedule_inline(objects) for _ in range(8)))
    assert all(len(result.binds) == 1 for result in found)


async def test_jobs_are_chosen_by_phase(core: RunningCore, ask: Ask) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("fits", 1), *gang("large", 9)])
    await adapter.decisions()
    waiting = await ask("list_jobs", phases=[PodGroupPhase.INQUEUE, PodGroupPhase.PENDING])
    assert {held.name for held in waiting} <= {"fits", "large"}
    assert await ask("list_jobs", phases=[PodGroupPhase.COMPLETED]) == []


async def test_a_call_may_have_a_time_of_its_own(core: RunningCore) -> None:
    settings = ClientSettings(address=core.server.address, timeout_seconds=1e-6, retry_seconds=0)
    async with AsyncClient(settings) as client:
        result = await client.schedule_inline([queue()], timeout_seconds=20)
    assert not result.binds


async def test_all_pages_of_a_session_are_put_together(
    core: RunningCore, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.client.calls._PAGE_SIZE", 2)
    adapter = await core.served([queue(), node("n1", cpu=64_000), *gang("job", 7)])
    await adapter.decisions()
    await core.session(1)
    session = await ask("get_session", 1)
    assert {bind.pod for bind in session.binds} == {f"team/job-{n}" for n in range(7)}
    assert {bind.job for bind in session.binds} == {"team/job"}
    assert session.summary.bind_count == 7
    assert not session.truncated


async def test_clusters_are_listed_and_removed(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), node("n1")])
    # The pause for the snapshot ends before the first session.
    await core.session(1)
    (found,) = await ask("list_clusters")
    assert (found.name, found.pause, found.object_counts["node"]) == ("c1", None, 1)
    with pytest.raises(InvalidRequestError) as connected:
        await ask("forget_cluster", "c1")
    assert connected.value.reason == "CLUSTER_CONNECTED"
    assert await ask("forget_cluster", "c1", force=True) == found.epoch
    with pytest.raises(NotFoundError):
        await ask("forget_cluster", "c1")


async def test_a_delay_that_the_core_asks_for_is_kept() -> None:
    attempts: list[float] = []

    async def call() -> None:
        attempts.append(time.monotonic())
        raise LimitExceededError("", ErrorDetails(retry_after_seconds=0.4))

    with pytest.raises(LimitExceededError):
        await retrying(ClientSettings(), Deadline(1.0))(call)
    assert len(attempts) in (2, 3)
    assert all(later - earlier >= 0.4 for earlier, later in itertools.pairwise(attempts))
