"""The client library against a running core: the same for threads and for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from pumice.client import (
    AsyncClient,
    Client,
    ClientSettings,
    CoreUnavailableError,
    HandshakeError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    TimeOverError,
)
from pumice.client.calling import is_worth_repeating
from pumice.client.errors import ClientError
from pumice.server.limits import Limits
from pumice.v1 import error_pb2
from pumice.v1.configuration_pb2 import Configuration
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
    settings = ClientSettings(address=core.server.address, attempts=1)
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
    assert {share.queue for share in result.queues_after} == {"default"}


async def test_objects_of_the_request_are_enough(core: RunningCore, ask: Ask) -> None:
    result = await ask("schedule_inline", [queue(), node("n1"), *gang("job", 9)])
    assert not result.binds
    (waiting,) = result.waiting
    assert waiting.job == "team/job"
    assert any("fit" in why for why in waiting.why)


async def test_an_explanation_comes_in_words(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), node("n1"), *gang("job", 9)])
    await core.session(1)
    found = await ask("explain_job", "team/job")
    assert found.sentence.startswith("team/job waits")
    assert found.phase == "Inqueue"
    assert [stage.stage for stage in found.stages][:2] == ["queue", "quota"]
    assert found.history[0].current
    assert (await ask("explain_pod", "team/job-0")).pod == "job-0"


async def test_what_there_is_is_listed(core: RunningCore, ask: Ask) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 1)])
    await adapter.decisions()
    assert [held.share.name for held in await ask("queues")] == ["default"]
    assert [held.name for held in await ask("jobs")] == ["job"]
    assert await ask("jobs", namespace="other") == []
    assert [held.name for held in await ask("nodes")] == ["n1"]
    assert [held.session for held in await ask("sessions")] == [1]
    assert [bind.pod for bind in (await ask("session")).binds] == ["team/job-0"]
    assert (await ask("config")).effective_config_hash
    assert (await ask("check_config", Configuration(scheduler_conf="nonsense"))).valid is False


async def test_pages_are_put_together(
    core: RunningCore, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.client.operations._PAGE", 2)
    await core.served([queue(), *(node(f"n{i}") for i in range(5))])
    assert [held.name for held in await ask("nodes")] == [f"n{i}" for i in range(5)]


async def test_errors_say_what_is_near_and_what_is_wrong(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), *gang("training", 1)])
    with pytest.raises(NotFoundError) as missing:
        await ask("explain_job", "team/trainign")
    assert missing.value.nearest_names == ["team/training"]
    with pytest.raises(InvalidRequestError) as wrong:
        await ask("schedule_inline", [node("n1", cpu=-1)])
    assert [bad.key for bad in wrong.value.detail.rejected] == ["n1"]
    bad = configuration("actions: nonsense").configuration
    with pytest.raises(InvalidRequestError) as refused:
        await ask("schedule_inline", [queue()], configuration=bad)
    assert refused.value.detail.problems


async def test_a_request_that_is_too_large_is_told_with_the_limit(ask: Ask) -> None:
    heavy = gang("job", 1)
    heavy[1].pod.annotations["a"] = "x" * 17 * 1024 * 1024
    with pytest.raises(LimitExceededError, match="is over the limit of 16777216") as caught:
        await ask("schedule_inline", heavy)
    assert caught.value.detail.given > 17 * 1024 * 1024
    assert not is_worth_repeating(caught.value)


async def test_a_request_id_is_idempotent(core: RunningCore, ask: Ask) -> None:
    await core.served([queue(), node("n1")])
    first = await ask("schedule", gang("job", 1), request_id="mine")
    again = await ask("schedule", gang("job", 1), request_id="mine")
    assert first.message == again.message
    with pytest.raises(InvalidRequestError):
        await ask("schedule", gang("job", 2), request_id="mine")


async def test_sessions_are_watched_by_either_client(core: RunningCore) -> None:
    settings = ClientSettings(address=core.server.address)
    adapter = await core.served([queue(), node("n1"), *gang("one", 1)])
    await adapter.decisions()
    # It is told to those who watch after it was sent to the adapter.
    await core.session(1)

    def first() -> str:
        with Client(settings) as client:
            sessions = client.watch(decided_only=True)
            found = next(sessions).binds[0].pod
            sessions.close()  # type: ignore[attr-defined]
            return found

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
        await stream.aclose()  # type: ignore[attr-defined]


async def test_a_watcher_is_told_that_the_core_ends(socket_folder: Path) -> None:
    async with running_core(socket_folder) as core:
        await core.served([queue()])
        await core.session(1)
        async with AsyncClient(ClientSettings(address=core.server.address)) as client:
            sessions = client.watch(after=-1)
            assert (await anext(sessions)).number == 1
            await core.server.stop()
            with pytest.raises(CoreUnavailableError, match="shutting down"):
                await anext(sessions)


async def test_a_core_that_is_away_is_tried_again(tmp_path: Any) -> None:
    settings = ClientSettings(address=f"unix:{tmp_path}/none.sock", attempts=2)
    with Client(settings) as client, pytest.raises(CoreUnavailableError):
        await asyncio.to_thread(client.queues)
    async with AsyncClient(settings) as other:
        with pytest.raises(CoreUnavailableError):
            await other.queues()


async def test_a_core_that_comes_back_answers_the_same_call(core: RunningCore) -> None:
    """The cluster is not complete at first: the call waits for it instead of failing."""
    adapter = core.adapter()
    await adapter.connect()
    async with AsyncClient(ClientSettings(address=core.server.address, attempts=50)) as client:
        asking = asyncio.create_task(client.nodes())
        await asyncio.sleep(0.1)
        await adapter.snapshot([queue(), node("n1")])
        assert [held.name for held in await asking] == ["n1"]


async def test_time_runs_out(core: RunningCore) -> None:
    settings = ClientSettings(address=core.server.address, timeout_seconds=1e-6, attempts=1)
    async with AsyncClient(settings) as client:
        with pytest.raises(TimeOverError, match=r"no answer from unix:.* within 1e-06 s"):
            await client.schedule_inline([queue()])


@pytest.mark.parametrize(
    ("error", "repeated"),
    [
        (CoreUnavailableError, True),
        (TimeOverError, False),
        (HandshakeError, False),
        (NotFoundError, False),
        (InvalidRequestError, False),
        (LimitExceededError, False),
        (ClientError, False),
    ],
)
def test_only_what_may_be_over_soon_is_repeated(error: type[ClientError], repeated: bool) -> None:
    made = error(grpc.StatusCode.UNKNOWN, "", error_pb2.ErrorDetail())
    assert is_worth_repeating(made) is repeated


def test_a_busy_core_is_asked_again_and_a_too_large_request_is_not() -> None:
    busy = error_pb2.ErrorDetail(limit_name="requests at once")
    large = error_pb2.ErrorDetail(limit_name="objects of a request")
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    assert is_worth_repeating(LimitExceededError(code, "", busy))
    assert not is_worth_repeating(LimitExceededError(code, "", large))


async def test_a_busy_core_is_asked_as_long_as_a_call_may_take(socket_folder: Path) -> None:
    """More at once than the core takes: all of them are answered, in time."""
    limits = Limits(trials_at_once=1, trials_waiting=1)
    async with running_core(socket_folder, limits) as core:
        settings = ClientSettings(address=core.server.address, attempts=1, timeout_seconds=60)
        async with AsyncClient(settings) as client:
            objects = [queue(), node("n1"), *gang("job", 1)]
            found = await asyncio.gather(*(client.schedule_inline(objects) for _ in range(8)))
    assert all(len(result.binds) == 1 for result in found)


async def test_jobs_are_chosen_by_phase(core: RunningCore, ask: Ask) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("fits", 1), *gang("large", 9)])
    await adapter.decisions()
    waiting = await ask("jobs", phases=["Inqueue", "pending"])
    assert {held.name for held in waiting} <= {"fits", "large"}
    assert await ask("jobs", phases=["Completed"]) == []
    with pytest.raises(ValueError, match="'asleep' is no phase; allowed: Pending"):
        await ask("jobs", phases=["asleep"])


async def test_a_call_may_have_a_time_of_its_own(core: RunningCore) -> None:
    settings = ClientSettings(address=core.server.address, timeout_seconds=1e-6, attempts=1)
    async with AsyncClient(settings) as client:
        result = await client.schedule_inline([queue()], timeout_seconds=20)
    assert not result.binds
