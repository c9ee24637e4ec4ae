"""EstimateStart: when a job starts, in its own answer, in Explain's and in Schedule's."""

import asyncio
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from pumice.server.estimating.estimator import MAX_HORIZON_NS
from pumice.server.estimating.forecasts import MAX_ESTIMATED_JOBS
from pumice.server.estimating.levels import RUN_TIME
from pumice.server.limits import Limits
from pumice.v1 import estimate_pb2 as pb
from pumice.v1 import object_pb2, pod_pb2
from pumice.v1.scheduling_service_pb2 import (
    EstimateStartRequest,
    EstimateStartResponse,
    ExplainRequest,
    ObjectName,
    ScheduleRequest,
)
from tests.server.running import (
    START,
    RunningCore,
    gang,
    group,
    node,
    pod,
    queue,
    running_core,
)
from tests.server.trials import inline, live, schedule

Code = grpc.StatusCode
DAY = Duration(seconds=24 * 3600)


def running(job: str, cpu: int, run_time: str = "", on: str = "n1") -> list[Any]:
    held = pod(job, 0, cpu, phase=pod_pb2.POD_PHASE_RUNNING, node_name=on)
    held.pod.start_time.FromNanoseconds(START)
    if run_time:
        held.pod.annotations[RUN_TIME] = run_time
    return [group(job, 1), held]


# A full node, and a gang that waits for it.
FULL = [queue(), node("n1"), *running("first", 4000, "10m"), *gang("next", 4)]


async def estimate(core: RunningCore, **fields: Any) -> EstimateStartResponse:
    if "job" in fields:
        fields["job"] = ObjectName(namespace="team", name=fields["job"])
    if "pod" in fields:
        fields["pod"] = ObjectName(namespace="team", name=fields["pod"])
    response: EstimateStartResponse = await core.scheduling().EstimateStart(
        EstimateStartRequest(**fields), timeout=60
    )
    return response


def minutes(stamp: Any) -> float:
    return float(stamp.ToNanoseconds() - START) / 60e9


async def test_a_waiting_gang_is_told_when_it_starts(core: RunningCore) -> None:
    await core.served(FULL)
    await core.session(1)
    response = await estimate(core, job="next")
    found = response.estimate
    assert (found.job, found.outcome) == ("team/next", pb.START_OUTCOME_EXPECTED)
    assert minutes(found.earliest_time) == pytest.approx(8, abs=0.2)
    assert minutes(found.expected_time) == pytest.approx(10, abs=0.2)
    assert minutes(found.latest_time) == pytest.approx(18.75, abs=0.3)
    assert found.basis.annotation_count == 1
    assert found.sentence.startswith("team/next is expected to start in 10 min (between 8 min")
    assert "1 from annotations" in found.sentence
    assert response.based_on_seq > 0
    assert await estimate(core, job="next") == response
    found = (await estimate(core, pod="next-2")).estimate
    assert (found.job, found.pod) == ("team/next", "next-2")
    assert found.sentence.startswith("team/next-2 is expected to start in 10 min")


async def test_jobs_that_run_never_fit_or_start_after_the_horizon_are_told_apart(
    core: RunningCore,
) -> None:
    await core.served([*FULL, *gang("large", 1, cpu=9000)])
    await core.session(1)
    assert (await estimate(core, job="first")).estimate.outcome == pb.START_OUTCOME_STARTED
    never = (await estimate(core, job="large")).estimate
    assert never.outcome == pb.START_OUTCOME_NEVER
    assert never.reasons
    assert never.HasField("reached_time")
    assert "would never start in the current state" in never.sentence
    # After the horizon.
    found = (await estimate(core, job="next", horizon=Duration(seconds=60))).estimate
    assert found.outcome == pb.START_OUTCOME_NOT_WITHIN_HORIZON
    assert found.sentence.startswith("team/next is not expected to start within 1 min.")
    # Between the optimistic and the expected time.
    found = (await estimate(core, job="next", horizon=Duration(seconds=540))).estimate
    assert found.outcome == pb.START_OUTCOME_NOT_WITHIN_HORIZON
    assert "if pods run shorter than usual" in found.sentence


async def test_names_that_do_not_exist_come_with_near_ones(core: RunningCore) -> None:
    await core.served(FULL)
    await core.session(1)
    for kind, near in (("job", "team/next"), ("pod", "team/next-0")):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await estimate(core, **{kind: "nxt" if kind == "job" else "nxt-0"})
        assert caught.value.code() is Code.NOT_FOUND
        assert near in (caught.value.details() or "")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await estimate(core, job="next", cluster="c2")
    assert caught.value.code() is Code.NOT_FOUND


WRONG: list[dict[str, Any]] = [
    {},
    {"job": ""},
    {"job": "a/b"},
    {"job": "next", "horizon": Duration(seconds=-1)},
    {"job": "next", "horizon": Duration(seconds=MAX_HORIZON_NS // 10**9 + 1)},
]


async def test_a_request_that_makes_no_sense_is_refused(core: RunningCore) -> None:
    await core.served(FULL)
    for fields in WRONG:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await estimate(core, **fields)
        assert caught.value.code() is Code.INVALID_ARGUMENT
    request: ScheduleRequest = inline("r1", *FULL, start_horizon=Duration(seconds=-5))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await schedule(core, request)
    assert caught.value.code() is Code.INVALID_ARGUMENT


async def test_explain_has_the_estimate_where_it_is_asked_for(core: RunningCore) -> None:
    await core.served(FULL)
    await core.session(1)
    asked = ExplainRequest(job=ObjectName(namespace="team", name="next"))
    assert not (await core.scheduling().Explain(asked)).HasField("start_estimate")
    asked.start_horizon.CopyFrom(DAY)
    explained = await core.scheduling().Explain(asked)
    assert explained.explanation.sentence
    assert explained.start_estimate == (await estimate(core, job="next")).estimate


async def test_schedule_estimates_the_starts_of_its_own_jobs(core: RunningCore) -> None:
    await core.served(FULL)
    await core.session(1)
    asked = live("r1", *gang("own", 4), start_horizon=DAY, own_only=True)
    response = await schedule(core, asked)
    (mine,) = response.jobs
    assert mine.job == "team/own"
    # The gang that waits already comes first, and its own pods are assumed to run for an hour.
    assert minutes(mine.start_estimate.expected_time) == pytest.approx(70, abs=2)
    without = await schedule(core, live("r2", *gang("own", 4)))
    assert not any(result.HasField("start_estimate") for result in without.jobs)
    # A request without jobs is about those that wait.
    response = await schedule(core, live("r3", node("n2"), start_horizon=DAY))
    (waited,) = response.jobs
    assert waited.start_estimate.sentence.startswith("team/next is expected to start in under 1 s")
    many = [item for number in range(MAX_ESTIMATED_JOBS + 5) for item in gang(f"j{number}", 1)]
    response = await schedule(core, live("r4", *many, start_horizon=DAY))
    told = [result for result in response.jobs if result.HasField("start_estimate")]
    assert len(told) == MAX_ESTIMATED_JOBS


async def test_an_inline_request_is_estimated_too(core: RunningCore) -> None:
    response = await schedule(core, inline("r1", *FULL, start_horizon=DAY))
    estimates = {result.job: result.start_estimate for result in response.jobs}
    assert estimates["team/next"].outcome == pb.START_OUTCOME_EXPECTED
    wrong = object_pb2.ClusterObject(pod=pod_pb2.Pod(uid="u", namespace="team"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await schedule(core, inline("r2", queue(), wrong, start_horizon=DAY))
    assert caught.value.code() is Code.INVALID_ARGUMENT


async def test_run_times_are_learned_from_the_live_cluster(core: RunningCore) -> None:
    ended = running("train-1", 1000)
    second = running("train-2", 4000)
    second[1].pod.start_time.FromNanoseconds(START + 200 * 10**9)
    adapter = await core.served([queue(), node("n1"), *ended, *second])
    core.clock.advance(300)
    ended[1].pod.phase = pod_pb2.POD_PHASE_SUCCEEDED
    await adapter.tell(ended[1], *gang("next", 4))
    found = (await estimate(core, job="next")).estimate
    assert found.basis.history_count == 1
    # The first run took 300 s, and the second began 200 s after it.
    assert minutes(found.expected_time) == pytest.approx(500 / 60, abs=0.2)


async def test_estimates_wait_for_each_other_up_to_a_limit(socket_folder: Any) -> None:
    limits = Limits(estimates_at_once=1, estimates_waiting=1)
    async with running_core(socket_folder, limits) as core:
        await core.served(FULL)
        await core.session(1)
        calls = [estimate(core, job="next") for _ in range(5)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        codes = [r.code() for r in results if isinstance(r, grpc.aio.AioRpcError)]
        assert codes == [Code.RESOURCE_EXHAUSTED] * 3
        assert (await estimate(core, job="next")).estimate.outcome == pb.START_OUTCOME_EXPECTED


async def test_a_caller_that_hangs_up_frees_its_turn(socket_folder: Any) -> None:
    limits = Limits(estimates_at_once=1, estimates_waiting=0)
    async with running_core(socket_folder, limits) as core:
        await core.served(FULL)
        await core.session(1)
        await estimate(core, job="next")
        name = ObjectName(namespace="team", name="next")
        call = core.scheduling().EstimateStart(EstimateStartRequest(job=name))
        await asyncio.sleep(0)
        call.cancel()
        async with asyncio.timeout(30):
            while True:
                with suppress(grpc.aio.AioRpcError):
                    found = await estimate(core, job="next")
                    break
                await asyncio.sleep(0.01)
        assert found.estimate.outcome == pb.START_OUTCOME_EXPECTED


async def test_a_cluster_that_is_not_complete_is_not_estimated(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await estimate(core, job="next")
    assert caught.value.code() is Code.UNAVAILABLE
