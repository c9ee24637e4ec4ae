"""Wall clocks that are set forward or back by hours, while a core runs."""

import grpc
import pytest

from pumice.server.limits import Limits
from pumice.v1 import decision_pb2
from tests.server.running import RunningCore, ScriptedAdapter, gang, node, outcome, queue

HOUR = 3600
EMPTY = [queue(), node("n1")]
FAILED = decision_pb2.OUTCOME_CODE_FAILED
JUMPS = pytest.mark.parametrize("hours", [-5, 5], ids=["back", "forward"])


async def status_of(adapter: ScriptedAdapter) -> grpc.StatusCode:
    await adapter.send(hello=adapter.hello)
    return (await adapter.ended_with())[0]


async def test_a_stream_resumes_after_the_clock_was_set_back(core: RunningCore) -> None:
    epoch = core.clock.now_ns() // 1_000_000
    adapter = await core.served(EMPTY, epoch=epoch)
    core.clock.jump(-5 * HOUR)
    adapter.cut()
    again = core.adapter(epoch=epoch, last_acknowledged_seq=adapter.seq, digests=[])
    await again.connect()


async def test_a_leader_follows_the_epochs_of_a_clock_that_was_set_back(core: RunningCore) -> None:
    epoch = core.clock.now_ns() // 1_000_000
    adapter = await core.served(EMPTY, epoch=epoch)
    core.clock.jump(-5 * HOUR)
    adapter.cut()
    most = Limits().epochs_after_served
    far = core.adapter(epoch=epoch + most + 1, adapter_id="a2", incarnation="i2")
    assert await status_of(far) is grpc.StatusCode.OUT_OF_RANGE
    other = core.adapter(cluster="c2", epoch=epoch)
    assert await status_of(other) is grpc.StatusCode.OUT_OF_RANGE
    follower = core.adapter(epoch=epoch + most, adapter_id="a2", incarnation="i2")
    await follower.connect()
    # Where all clocks and the stored epoch are right again, an operator removes the epoch.
    lower = core.adapter(epoch=core.clock.now_ns() // 1_000_000)
    assert await status_of(lower) is grpc.StatusCode.FAILED_PRECONDITION
    await core.server._clusters.forget("c1", force=True)
    await core.adapter(epoch=core.clock.now_ns() // 1_000_000).connect()


@JUMPS
async def test_sessions_go_on(core: RunningCore, hours: int) -> None:
    adapter = await core.served([*EMPTY, *gang("first", 1)])
    await adapter.decisions()
    core.clock.jump(hours * HOUR)
    await adapter.tell(*gang("second", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["second-0"]


@JUMPS
async def test_a_job_that_cools_down_is_tried_again(core: RunningCore, hours: int) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    for _ in range(3):
        (bind,) = await adapter.decisions()
        await adapter.tell(outcome(bind.id, FAILED))
        core.clock.advance(10)
    (bind,) = await adapter.decisions()
    await adapter.tell(outcome(bind.id, FAILED))
    # A session that notes the cool-down, and the next ones are skipped.
    for _ in range(3):
        core.clock.advance(1)
    core.clock.jump(hours * HOUR)
    core.clock.advance(61)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


@JUMPS
async def test_a_decision_without_an_outcome_expires(core: RunningCore, hours: int) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    await adapter.decisions()
    core.clock.jump(hours * HOUR)
    core.clock.advance(1)
    resync = await adapter.next("resync")
    assert [ref.uid for ref in resync.objects] == ["pod-job-0"]


async def test_a_clock_that_is_set_back_a_little_expires_no_decision(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    (bind,) = await adapter.decisions()
    core.clock.jump(-5)
    core.clock.advance(1)
    await adapter.tell(outcome(bind.id, decision_pb2.OUTCOME_CODE_APPLIED), *gang("other", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["other-0"]
    assert core.metric("pumice_expired_decisions_total") == 0
