"""Limits of the core that no other test drives."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from pumice.client.details import read_status_details
from pumice.core.configuration import Configuration as SchedulerConfiguration
from pumice.core.configuration import PluginOptions
from pumice.core.decisions import Bind, Evict, Gang, SessionResult, Wait
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.registry import Registry
from pumice.server import configuration, responses, status
from pumice.server.configuration_check import check
from pumice.server.core_environment import CoreEnvironment
from pumice.server.errors import BusyError, ObjectsRejectedError, RequestFieldError
from pumice.server.explaining import explain, facts, job_history
from pumice.server.explaining.explain import Explainer
from pumice.server.explaining.facts import Facts, Subject, gather_facts
from pumice.server.explaining.job_history import JobHistories
from pumice.server.limits import Limits
from pumice.server.ops import OpReader
from pumice.server.queue_tree import MAX_NAMED, fault_events, queue_faults
from pumice.server.recording import service as recording_service
from pumice.server.recording.service import StreamListener
from pumice.server.records import History, Watchers, record
from pumice.server.rules import MAX_NAME_LENGTH
from pumice.server.scheduling import MAX_EXPLAINED, MAX_REQUEST_ID_LENGTH
from pumice.server.state import ClusterState
from pumice.server.whatif import (
    job_results,
    problems,
    replica_connection,
    request_objects,
    response_cache,
    trial,
)
from pumice.server.whatif.response_cache import ResponseCache
from pumice.server.wire import write_upsert
from pumice.v1 import configuration_pb2, delta_pb2, object_pb2
from pumice.v1.inspection_service_pb2 import CheckConfigRequest
from pumice.v1.recording_pb2 import RecordingEntry, RecordingHeader
from pumice.v1.recording_service_pb2 import RecordRequest
from pumice.v1.recording_service_pb2_grpc import RecordingServiceStub
from pumice.v1.scheduling_service_pb2 import (
    ExplainedObject,
    ExplainRequest,
    ObjectName,
    ScheduleRequest,
    ScheduleResponse,
)
from tests.server import asking
from tests.server.running import ManualClock, RunningCore, gang, node, queue, running_core
from tests.server.trials import inline, schedule

Code = grpc.StatusCode
SECOND_NS = 1_000_000_000


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
    monkeypatch.setattr(response_cache, "MAX_RESPONSES", 3)
    clock = ManualClock()
    made: list[str] = []
    held = ResponseCache(clock)

    async def ask(id_: str) -> None:
        async def make() -> ScheduleResponse:
            made.append(id_)
            return ScheduleResponse(request_id=id_, config_hash="x" * 100)

        await held.get("me", id_, b"content", make)

    for id_ in ("a", "b", "b", "c", "d", "a"):
        await ask(id_)
    assert made == ["a", "b", "c", "d", "a"]
    clock.advance(301)
    await ask("a")
    assert made[-2:] == ["a", "a"]
    monkeypatch.setattr(response_cache, "MAX_RESPONSE_BYTES", 50)
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


async def test_questions_to_an_owner_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "MAX_OWNER_QUESTIONS", 1)
    asked, go_on = [], asyncio.Event()

    class Owner:
        async def call(self, question: Any) -> object:
            asked.append(question)
            await go_on.wait()
            return object()

    cluster: Any = SimpleNamespace(name="c1", owner=Owner())
    explainer: Any = SimpleNamespace(_owner_slots={})
    asking = [
        asyncio.create_task(
            Explainer._ask_owner(explainer, cluster, Subject("a", "b", False, 5), 0)
        )
        for _ in range(3)
    ]
    await asyncio.sleep(0.01)
    assert len(asked) == 1
    go_on.set()
    await asyncio.gather(*asking)
    assert len(asked) == 3


def gathered(subject: Subject, *items: object_pb2.ClusterObject) -> Facts:
    state = ClusterState(CoreEnvironment().registry)
    state.configure(configuration_pb2.Configuration())
    upserts = [delta_pb2.Op(upsert=write_upsert(each, 1)) for each in items]
    state.apply(OpReader().read_ops(1, upserts), SECOND_NS)
    state.engine.schedule(SECOND_NS)
    return gather_facts(state, subject, SECOND_NS)


def test_pods_of_a_placed_job_that_are_looked_at_are_limited() -> None:
    found = gathered(Subject("team", "job", False, 5), queue(), node("n1"), *gang("job", 4))
    assert len(found.placed_uids) == facts.MAX_PLACEMENTS


def test_names_that_are_compared_with_an_unknown_one_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(facts, "MAX_NAMES", 2)
    jobs = [item for name in ("joa", "joc", "jod") for item in gang(name, 1)]
    assert len(gathered(Subject("team", "job", False, 5), queue(), *jobs).names) == 2


async def test_bytes_that_wait_for_the_caller_of_a_recording_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording_service, "MAX_WAITING_BYTES", 100)
    listener = StreamListener(asyncio.get_running_loop())
    entry = RecordingEntry(header=RecordingHeader(cluster="c" * 40))
    for _ in range(2):
        listener.put(entry)
    await asyncio.sleep(0.01)
    assert not listener.was_lost
    listener.put(entry)
    await asyncio.sleep(0.01)
    assert listener.was_lost


async def test_a_replica_that_does_not_keep_up_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_connection, "MAX_WAITING_BYTES", 1000)
    replica = replica_connection.ReplicaConnection("c1")
    await replica.start()
    before = replica.is_alive
    replica.send("add_objects", b"x" * 10_000_000)
    assert (before, replica.is_alive) == (True, False)
    await replica.stop()


async def test_rejected_objects_of_an_answer_are_limited(core: RunningCore) -> None:
    bad = [node(f"n{number}", cpu=-5) for number in range(request_objects.MAX_REJECTED + 5)]
    request = inline("r1", *bad)
    with pytest.raises(ObjectsRejectedError, match=f"and {len(bad) - 1} more") as found:
        trial.run_inline(request, CoreEnvironment().registry, SECOND_NS)
    assert len(found.value.rejected) == request_objects.MAX_REJECTED
    assert len(found.value.violations) == 5
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await schedule(core, request)
    listed = read_status_details(caught.value.trailing_metadata()).rejected
    assert 0 < sum(each.ByteSize() for each in listed) <= status._MAX_DETAIL_BYTES
    assert len(listed) < request_objects.MAX_REJECTED


def test_waiting_jobs_of_an_answer_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MAX_WAITS", 2)
    jobs = [item for number in range(4) for item in gang(f"j{number}", 1)]
    request = inline("r1", queue(), node("n1", cpu=1), *jobs)
    response = trial.run_inline(request, CoreEnvironment().registry, SECOND_NS)
    assert len(response.waits) == 2


def test_problems_of_an_answer_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "MAX_PROBLEMS", 2)
    documents = [asking.job(f"j{number}", requests={"cpu": "x"}) for number in range(5)]
    response = asking.answer(asking.inline(asking.node("n1"), *documents))
    assert len(response.problems) == 3
    assert response.problems[-1].problem == "3 more problems"


def test_explained_jobs_of_an_answer_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_results, "MAX_EXPLAINED_JOBS", 2)
    jobs = [asking.job(f"j{number}", 9) for number in range(4)]
    response = asking.answer(asking.inline(asking.node("n1"), *jobs))
    assert [*asking.verdicts(response).values()] == [*["NEVER_FITS"] * 2, *["UNSPECIFIED"] * 2]
    assert "only the first 2 waiting jobs" in response.jobs[3].sentence
    assert response.jobs[3].reasons


async def test_bytes_of_requests_at_once_are_limited(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(trial_request_bytes=100)) as core:
        await schedule(core, inline("r1", queue()))
        with pytest.raises(grpc.aio.AioRpcError, match="bytes of requests at once"):
            await schedule(core, inline("r2", *gang("job", 5)))


async def test_explained_objects_of_a_request_are_limited(core: RunningCore) -> None:
    subject = ExplainedObject(job=ObjectName(namespace="team", name="job"))
    request = inline("r1", queue())
    request.explained.extend([subject] * (MAX_EXPLAINED + 1))
    with pytest.raises(grpc.aio.AioRpcError, match="has 21 elements; at most 20 are allowed"):
        await schedule(core, request)


def test_times_of_a_configuration_are_limited() -> None:
    def problems(seconds: int) -> int:
        given = configuration_pb2.Configuration(schedule_period=Duration(seconds=seconds))
        return len(check(given, Registry()).problems)

    assert (problems(24 * 3600), problems(24 * 3600 + 1)) == (0, 1)


def test_the_text_of_an_error_is_cut() -> None:
    assert len(status.status_of(RequestFieldError("name", "x" * 5000)).message) == status._MAX_TEXT
