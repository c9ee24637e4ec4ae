"""Every limit of the core is on its page with its value, and a test drives it."""

import asyncio
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

import pumice.server
from pumice.core.configuration import Configuration as SchedulerConfiguration
from pumice.core.configuration import PluginOptions
from pumice.core.decisions import Bind, Evict, Gang, SessionResult, Wait
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.registry import Registry
from pumice.server import configuration, responses
from pumice.server.checking import check
from pumice.server.errors import BusyError
from pumice.server.explaining import job_history
from pumice.server.explaining.job_history import JobHistories
from pumice.server.limits import Limits
from pumice.server.queue_tree import MAX_NAMED, fault_events, queue_faults
from pumice.server.recording import service as recording_service
from pumice.server.records import History, record
from pumice.server.rules import MAX_NAME_LENGTH
from pumice.server.scheduling import MAX_REQUEST_ID_LENGTH
from pumice.server.watchers import Watchers
from pumice.server.whatif import answers
from pumice.server.whatif.answers import Answers
from pumice.v1 import configuration_pb2, object_pb2
from pumice.v1.inspection_service_pb2 import CheckConfigRequest
from pumice.v1.recording_service_pb2 import RecordRequest
from pumice.v1.recording_service_pb2_grpc import RecordingServiceStub
from pumice.v1.scheduling_service_pb2 import ExplainRequest, ScheduleRequest, ScheduleResponse
from tests.server.running import ManualClock, RunningCore, node, queue, running_core
from tests.server.trials import inline, schedule

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/limits.md"
ROW = re.compile(
    r"^\| [^|]+ \| ([^|]+) \| `([\w.]+)` \| [^|]+ \| `([\w./]+)(?:::(\w+))?` \|$", re.M
)
SECOND_NS = 1_000_000_000
Code = grpc.StatusCode
# Of texts and figures that are made in passing, and of what is bounded by another limit on the page.
NOT_LISTED = {
    "explaining.explain.MAX_OWNER_QUESTIONS",
    "explaining.explain.MAX_EARLIER_MEMBERS",
    "explaining.earlier_members.MAX_ONE_BY_ONE",
    "explaining.facts.MAX_PLACEMENTS",
    "explaining.facts.MAX_NAMES",
    "recording.service.MAX_WAITING_BYTES",
    "recording.recorder.MAX_QUEUED_ENTRIES",
    "whatif.replica_connection.MAX_WAITING_BYTES",
    "whatif.trial.MAX_REJECTED",
    "whatif.trial.MAX_WAITS",
}


def rows() -> list[tuple[str, str, str, str]]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def value_of(place: str) -> int:
    full = place if place.startswith("pumice.") else f"pumice.server.{place}"
    module, _, name = full.rpartition(".")
    if module.endswith(".Limits"):
        return int(getattr(Limits(), name))
    return int(getattr(importlib.import_module(module), name))


def test_every_row_has_the_value_of_the_code() -> None:
    assert len(rows()) > 50
    for shown, place, _, _ in rows():
        number, _, unit = shown.partition(" ")
        scale = SECOND_NS if unit == "s" else 1
        assert int(number) * scale == value_of(place), place


def test_every_limit_of_the_code_has_a_row() -> None:
    listed = {place for _, place, _, _ in rows()}
    wanted = {f"limits.Limits.{name}" for name in Limits.__dataclass_fields__}
    for module in pkgutil.walk_packages(pumice.server.__path__, "pumice.server."):
        held = importlib.import_module(module.name)
        names = [name for name in vars(held) if name.startswith("MAX_")]
        own = (ROOT / "server" / Path(*module.name.split("."))).with_suffix(".py")
        text = own.read_text(encoding="utf-8") if own.exists() else ""
        short = module.name.removeprefix("pumice.server.")
        wanted |= {
            f"{short}.{name}" for name in names if re.search(rf"^\S*.*\b{name} =", text, re.M)
        }
    assert wanted - listed - NOT_LISTED == set()


def test_every_row_names_a_test_that_exists() -> None:
    for _, place, file, name in rows():
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, place


# Tests of limits that have no better place.


async def test_a_name_that_is_too_long_is_refused(core: RunningCore) -> None:
    await core.adapter(cluster="x" * MAX_NAME_LENGTH).connect()
    long = core.adapter(cluster="x" * (MAX_NAME_LENGTH + 1))
    await long.send(hello=long.hello)
    assert (await long.ended_with())[0] is Code.INVALID_ARGUMENT


def test_warnings_of_an_ack_are_limited() -> None:
    warnings = [object_pb2.ObjectWarning()] * (responses.MAX_WARNINGS + 1)
    assert len(responses.write_ack(1, (), warnings, 1).warnings) == responses.MAX_WARNINGS


def test_problems_of_a_configuration_are_limited() -> None:
    text = "".join(f"unknown{number}: 1\n" for number in range(configuration.MAX_PROBLEMS + 9))
    answer = check(configuration_pb2.Configuration(scheduler_conf=text), Registry())
    assert len(answer.problems) == configuration.MAX_PROBLEMS + 1
    assert "more problems" in answer.problems[-1].problem


async def test_checks_beyond_the_limit_are_refused(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(checks_at_once=1, checks_waiting=0)) as core:
        stub = core.inspection()
        text = "a: [" + "x, " * 2_000 + "]"
        request = CheckConfigRequest(
            configuration=configuration_pb2.Configuration(scheduler_conf=text)
        )
        calls = await asyncio.gather(
            *(stub.CheckConfig(request) for _ in range(20)), return_exceptions=True
        )
        refused = [each for each in calls if isinstance(each, grpc.aio.AioRpcError)]
        assert {each.code() for each in refused} == {Code.RESOURCE_EXHAUSTED}
        assert len(refused) < 20
        assert not (await stub.CheckConfig(request)).valid


def test_watchers_are_limited() -> None:
    watchers = Watchers(Limits(watchers=2))
    first = watchers.add()
    watchers.add()
    with pytest.raises(BusyError):
        watchers.add()
    watchers.remove(first)
    watchers.add()


def session(number: int, *decisions: Any, waits: tuple[Wait, ...] = ()) -> SessionResult:
    return SessionResult(number, number, decisions=decisions, waits=waits)


def kept(number: int, *decisions: Any) -> Any:
    result = session(number, *decisions)
    return record(result, duration_ns=1, based_on_seq=1, config_hash="")


async def test_a_slow_watcher_is_ended() -> None:
    watchers = Watchers(Limits(watcher_sessions=3))
    slow = watchers.add()
    for number in range(4):
        watchers.publish(kept(number + 1))
    assert slow.too_slow
    assert [slow.queue.get_nowait() is None for _ in range(4)] == [False, False, False, True]


def test_the_oldest_sessions_are_forgotten() -> None:
    history = History(3)
    for number in range(1, 6):
        history.add(kept(number))
    assert [each.number for each in history.newest_first()] == [5, 4, 3]


def bind(number: int) -> Bind:
    return Bind(f"s.{number}", "team", f"p{number}", f"u{number}", "n1")


def test_decisions_of_old_sessions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.server.records.MAX_KEPT_DECISIONS", 3)
    history = History(10)
    for number in range(1, 4):
        history.add(kept(number, bind(0), bind(1)))
    assert [each.result is None for each in history.newest_first()] == [False, True, True]


async def refusal(core: RunningCore, request: ScheduleRequest) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await schedule(core, request)
    return caught.value.code()


async def test_sessions_of_a_trial_are_limited(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(trial_sessions=2)) as core:
        await schedule(core, inline("r1", queue(), max_sessions=2))
        code = await refusal(core, inline("r2", queue(), max_sessions=3))
        assert code is Code.INVALID_ARGUMENT


async def test_a_request_id_is_limited(core: RunningCore) -> None:
    await schedule(core, inline("r" * MAX_REQUEST_ID_LENGTH, queue()))
    code = await refusal(core, inline("r" * (MAX_REQUEST_ID_LENGTH + 1), queue()))
    assert code is Code.INVALID_ARGUMENT


async def test_kept_answers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWERS", 3)
    clock = ManualClock()
    made: list[str] = []
    held = Answers(clock)

    async def ask(id_: str) -> None:
        async def make() -> ScheduleResponse:
            made.append(id_)
            return ScheduleResponse(request_id=id_, config_hash="x" * 100)

        await held.get("me", ScheduleRequest(request_id=id_), make)

    for id_ in ("a", "b", "b", "c", "d", "a"):
        await ask(id_)
    assert made == ["a", "b", "c", "d", "a"]
    clock.advance(301)
    await ask("a")
    assert made[-2:] == ["a", "a"]
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 50)
    await ask("e")
    await ask("f")
    await ask("e")
    assert made[-3:] == ["e", "f", "e"]


async def test_nearest_nodes_are_limited(core: RunningCore) -> None:
    await core.served([queue(), node("n1")])
    request = ExplainRequest(nearest_node_count=101)
    request.job.namespace, request.job.name = "team", "job"
    with pytest.raises(grpc.aio.AioRpcError, match="101 is not between 0 and 100"):
        await core.scheduling().Explain(request)


def waiting(job: str, code: ReasonCode = ReasonCode.GANG_SHORT) -> Wait:
    return Wait(job, (Reason("gang", code),))


def evict(number: int, job: str = "team/a") -> Evict:
    return Evict(f"s.{number}", "team", f"p{number}", f"u{number}", "n1", "x", job=job)


def test_histories_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_history, "MAX_HISTORIES", 3)
    monkeypatch.setattr(job_history, "MAX_EVICTED_PODS", 2)
    histories = JobHistories()
    for number in range(8):
        histories.add(session(number + 1, waits=(waiting(f"team/j{number}"),)))
    histories.add(session(9, *(evict(number, "team/z") for number in range(4))))
    histories.update()
    assert histories.of_job("team/j0") is None
    assert histories.of_job("team/z") is not None
    assert histories.eviction_of("team/p0") is None
    assert histories.eviction_of("team/p3") is not None


def test_what_a_history_keeps_is_limited() -> None:
    histories = JobHistories()
    codes = (ReasonCode.GANG_SHORT, ReasonCode.NO_NODE_FITS)
    gang = Gang("g", "team/a", "uid", "hash", 1)
    for number in range(300):
        placed = Bind(f"s.{number}", "team", "p", "u", "n1", gang=gang)
        wait = waiting("team/a", codes[number % 2])
        histories.add(session(number + 1, evict(number), placed, waits=(wait,)))
    histories.update()
    history = histories.of_job("team/a")
    assert history is not None
    assert len(history.periods) == job_history.MAX_PERIODS
    assert len(history.evictions) == job_history.MAX_EVICTIONS
    assert len(history.bound_in) == job_history.MAX_BIND_SESSIONS


def test_events_about_queues_are_limited() -> None:
    names = ["root", *(f"q{number}" for number in range(MAX_NAMED + 5))]
    queues = {name: Queue(uid=name, name=name, parent="lost") for name in names}
    tree = (PluginOptions("capacity", flags=(("enableHierarchy", True),)),)
    faults = queue_faults(SchedulerConfiguration(("allocate",), (tree,)), queues)
    assert len(faults) == MAX_NAMED + 5
    assert len(fault_events(faults, queues)) == MAX_NAMED


async def test_streamed_recordings_are_limited(
    core: RunningCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_service, "MAX_RECORDINGS", 1)
    await core.served([queue(), node("n1")])
    stub: Any = RecordingServiceStub(core.channel())
    first = stub.Record(RecordRequest(cluster="c1"))
    await first.read()
    second = stub.Record(RecordRequest(cluster="c1"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await second.read()
    assert caught.value.code() is Code.RESOURCE_EXHAUSTED
    first.cancel()
