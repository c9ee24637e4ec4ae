"""Binds by another scheduler are noticed, counted and warned about, each once."""

import asyncio
import logging

import pytest

from pumice.adapters.runtime.errors import OtherSchedulerError
from pumice.adapters.runtime.foreign_binds import ForeignBinds
from pumice.adapters.runtime.metrics import Metrics
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_FAILED, POD_PHASE_PENDING, POD_PHASE_RUNNING, Pod, PodPhase
from pumice.v1.status_pb2 import Event
from tests.adapters.conftest import Stage
from tests.adapters.fake_clock import FakeClock, until
from tests.adapters.fake_core import serve
from tests.adapters.fake_world import bind, pod

NAMES = ("volcano",)


def ours(name: str, node: str = "", scheduler: str = "volcano") -> ClusterObject:
    made = pod(name, node=node, group="")
    made.pod.spec.scheduler_name = scheduler
    return made


class Bench:
    def __init__(self) -> None:
        self.clock, self.metrics = FakeClock(), Metrics()
        self.leads = True
        self.events: list[Event] = []
        self.foreign = ForeignBinds(
            NAMES, lambda: self.leads, self.events.append, self.clock, self.metrics
        )

    async def lead(self) -> None:
        """For long enough that no bind can be of the last leader."""
        self.bind("first", "n1")
        await self.clock.advance(5)
        assert self.foreign.count == 0

    def bind(self, name: str, node: str, scheduler: str = "volcano") -> None:
        self.foreign.note_pod(ours(name, scheduler=scheduler).pod)
        self.foreign.note_pod(ours(name, node, scheduler).pod)


async def test_a_bind_that_was_not_decided_is_counted_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    await bench.lead()
    bench.bind("p", "n1")
    assert bench.metrics.counted("foreign_binds") == 1
    assert [(one.name, one.reason) for one in bench.events] == [("p", "BoundByOtherScheduler")]
    assert "such as pod ns/p to node n1" in caplog.text
    # Said once in a while, however many there are.
    for number in range(50):
        bench.bind(f"q{number}", "n1")
    assert bench.metrics.counted("foreign_binds") == 51
    assert (len(bench.events), len(caplog.records)) == (1, 1)
    await bench.clock.advance(61)
    bench.bind("r", "n1")
    assert "51 since the last warning" in caplog.text


async def test_own_binds_and_pods_of_others_are_not_counted() -> None:
    bench = Bench()
    await bench.lead()
    bench.foreign.note_pod(ours("p").pod)
    bench.foreign.note_bind(bind("p", "n1").bind)
    bench.bind("p", "n1")
    # It came with a node, so nobody bound it.
    bench.foreign.note_pod(ours("daemon", "n1").pod)
    bench.bind("other", "n1", scheduler="default-scheduler")
    bench.leads = False
    bench.bind("theirs", "n1")
    assert bench.foreign.count == 0
    bench.leads = True
    # The last leader's binds may be seen a moment after it ended.
    bench.bind("late", "n1")
    assert bench.foreign.count == 0


async def test_another_node_than_decided_is_a_foreign_bind() -> None:
    bench = Bench()
    await bench.lead()
    bench.foreign.note_pod(ours("p").pod)
    bench.foreign.note_bind(bind("p", "n1").bind)
    bench.foreign.note_pod(ours("p", "n2").pod)
    assert bench.foreign.count == 1


async def test_pods_that_are_gone_are_forgotten() -> None:
    bench = Bench()
    for number in range(100):
        bench.foreign.note_pod(ours(f"p{number}").pod)
        bench.foreign.note_bind(bind(f"p{number}").bind)
        bench.foreign.forget_pod(f"uid-p{number}")
        # A bind is tried again before it is known that the pod is gone.
        bench.foreign.note_bind(bind(f"p{number}").bind)
    assert not bench.foreign._pending
    assert not bench.foreign._decided


async def test_an_adapter_refuses_to_start_beside_another_scheduler(stage: Stage) -> None:
    stage.world.store.put(ours("first"))
    stage.world.store.put(ours("p"))
    adapter = stage.adapter(scheduler_names=NAMES, other_scheduler_check_seconds=2.6)
    run = stage.start(adapter)
    await until(adapter._handler.synced.is_set)
    stage.world.place("uid-first", "n1")
    await asyncio.sleep(2.2)
    stage.world.place("uid-p", "n1")
    with pytest.raises(OtherSchedulerError, match="pod ns/p to node n1"):
        await run


async def test_an_adapter_leads_where_nobody_else_binds(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stage.world.store.put(ours("p"))
    adapter = stage.adapter(scheduler_names=NAMES, other_scheduler_check_seconds=0.1)
    stage.start(adapter)
    stream = serve(await stage.core.accept())
    await stream.snapshot_done()
    assert "watching for another scheduler for 0.1 s" in caplog.text
    stream.stream.decide([bind("p")])
    await stream.until(lambda: stream.model.outcomes)
    assert adapter.metrics.counted("foreign_binds") == 0
    await stream.close()


def test_only_a_pending_pod_on_the_decided_node_is_what_was_asked_for() -> None:
    def seen(
        node: str = "n1", phase: PodPhase.ValueType = POD_PHASE_PENDING, **fields: bool
    ) -> Pod:
        made = ours("p", node).pod
        made.phase = phase
        return made

    def is_asked_for(found: Pod) -> bool:
        foreign = Bench().foreign
        foreign.note_pod(ours("p").pod)
        foreign.note_bind(bind("p", "n1").bind)
        return foreign.note_pod(found)

    assert is_asked_for(seen())
    assert not is_asked_for(seen("n2"))
    assert not is_asked_for(seen(phase=POD_PHASE_FAILED))
    ending = seen()
    ending.terminating = True
    assert not is_asked_for(ending)
    assert not is_asked_for(seen(node=""))
    # Once: later versions hold something else.
    foreign = Bench().foreign
    foreign.note_pod(ours("p").pod)
    foreign.note_bind(bind("p", "n1").bind)
    assert [foreign.note_pod(seen()), foreign.note_pod(seen())] == [True, False]
    # That it runs is expected too, and nothing after it.
    runs = seen(phase=POD_PHASE_RUNNING)
    assert [foreign.note_pod(runs), foreign.note_pod(runs)] == [True, False]
    assert is_asked_for(runs)
