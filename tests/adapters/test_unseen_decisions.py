"""A snapshot shows every decision that was applied, even if the watch has not shown it yet."""

import asyncio

import grpc

from pumice.adapters.runtime.unseen_decisions import UnseenDecisions
from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.v1.object_pb2 import KIND_POD, ClusterObject
from pumice.v1.pod_pb2 import Pod
from tests.adapters.conftest import Stage
from tests.adapters.fake_clock import until
from tests.adapters.fake_core import ServedStream, serve
from tests.adapters.fake_world import bind, evict, pod

# The fake world does not change its pods by itself after this answer.
DONE_UNSEEN = ApplyResult(ApplyCode.DONE)


async def served_anew(stage: Stage, first: ServedStream) -> ServedStream:
    """A new core after the first one ended: it has no assumptions and gets a snapshot."""
    await first.close()
    first.stream.end(grpc.StatusCode.UNAVAILABLE)
    second = serve(await stage.core.accept())
    await second.snapshot_done()
    return second


def pod_of(served: ServedStream, name: str) -> Pod:
    return served.model.objects[KIND_POD, f"uid-{name}"][1].pod


async def test_a_bind_that_the_watch_has_not_shown_is_in_the_snapshot(stage: Stage) -> None:
    stage.world.store.put(pod("a"))
    stage.world.answers["a"] = [DONE_UNSEEN]
    adapter = stage.adapter()
    stage.start(adapter)
    first = serve(await stage.core.accept())
    await first.snapshot_done()
    decision = bind("a", "n7")
    decision.bind.annotations["gpu"] = "3"
    first.stream.decide([decision])
    await first.until(lambda: first.model.outcomes)
    assert not pod_of(first, "a").node_name
    second = await served_anew(stage, first)
    assert pod_of(second, "a").node_name == "n7"
    assert pod_of(second, "a").annotations == {"gpu": "3"}
    # A version that is older than the bind does not take the node away.
    older = pod("a", group="other")
    stage.world.store.put(older)
    await second.until(lambda: pod_of(second, "a").group_name == "other")
    assert pod_of(second, "a").node_name == "n7"
    assert len(adapter._unseen) == 1
    stage.world.place("uid-a", "n7")
    await until(lambda: not len(adapter._unseen))


async def test_an_eviction_that_the_watch_has_not_shown_is_in_the_snapshot(stage: Stage) -> None:
    stage.world.store.put(pod("a", node="n1"))
    stage.world.answers["a"] = [DONE_UNSEEN]
    adapter = stage.adapter()
    stage.start(adapter)
    first = serve(await stage.core.accept())
    await first.snapshot_done()
    first.stream.decide([evict("a")])
    await first.until(lambda: first.model.outcomes)
    second = await served_anew(stage, first)
    assert pod_of(second, "a").terminating
    stage.world.store.remove(KIND_POD, "uid-a")
    await until(lambda: not len(adapter._unseen))


async def test_a_bind_without_a_response_is_completed_before_the_snapshot(stage: Stage) -> None:
    """The bind had an effect, but neither the response nor the watch shows it."""
    stage.world.store.put(pod("a"))
    retried = asyncio.Event()

    async def placed() -> ApplyResult:
        retried.set()
        return ApplyResult(ApplyCode.PLACED, node="n1")

    stage.world.answers["a"] = [ApplyResult(ApplyCode.TIMED_OUT), placed]
    adapter = stage.adapter(drain_timeout_seconds=30.0)
    stage.start(adapter)
    first = serve(await stage.core.accept())
    await first.snapshot_done()
    first.stream.decide([bind("a", "n1")])
    await until(lambda: stage.world.called("bind") == ["a"])
    second = await served_anew(stage, first)
    assert retried.is_set()
    assert pod_of(second, "a").node_name == "n1"


def test_a_decision_that_was_not_applied_is_forgotten() -> None:
    unseen = UnseenDecisions()
    for order in (bind("a").bind, evict("a").evict):
        unseen.begin(order)
        unseen.end(order, is_applied=False)
    assert not len(unseen)


def test_a_watch_that_is_faster_than_the_response_leaves_nothing() -> None:
    unseen = UnseenDecisions()
    unseen.begin(bind("a", "n1").bind)
    shown = pod("a", node="n1")
    assert unseen.complete(shown) is shown
    unseen.end(bind("a", "n1").bind, is_applied=True)
    assert not len(unseen)
    assert unseen.applied_uids() == []


def test_a_pod_that_is_bound_and_evicted_shows_both() -> None:
    unseen = UnseenDecisions()
    for order in (bind("a", "n1").bind, evict("a").evict):
        unseen.begin(order)
        unseen.end(order, is_applied=True)
    before = pod("a")
    completed = unseen.complete(before)
    assert (completed.pod.node_name, completed.pod.terminating) == ("n1", True)
    assert before == pod("a")
    bound = ClusterObject()
    bound.CopyFrom(pod("a", node="n1"))
    assert unseen.complete(bound).pod.terminating
    assert unseen.applied_uids() == ["uid-a"]
    unseen.forget("uid-a")
    assert not len(unseen)
