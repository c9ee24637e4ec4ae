"""An adapter that is thrown away and started again changes nothing, with or without its core.

A walk is taken several times over the same cluster: once by one adapter and one core, then with
restarts. At rest nothing may differ: no placement, no status, no condition, no event more or less.
In the middle of things the order in which a core sees changes may differ, so only what must hold
always is compared: every gang whole, nothing bound twice, and the same jobs running.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.manifests import translate
from pumice.v1.condition_pb2 import CONDITION_STATUS_FALSE
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Bind
from pumice.v1.group_pb2 import PodGroup
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP, KIND_QUEUE
from pumice.v1.pod_pb2 import POD_PHASE_RUNNING, Pod
from pumice.v1.status_pb2 import Event, StatusChange
from tests.adapters.fake_world import FakeWorld
from tests.e2e.objects import node_body, pod_body, pod_group_body, queue_body
from tests.loop.stage import Stage, quick, until

SEEDS = (1, 2, 3, 4)
STEPS = 14
CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: proportion
  - name: predicates
  - name: nodeorder
"""


class Cluster(FakeWorld):
    """Bound pods run at once; statuses are written; calls may take a moment."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self.is_slow = False
        self.bound: Counter[str] = Counter()
        self.events: Counter[tuple[str, str, str]] = Counter()
        self.writes = 0
        self.configuration = Configuration(scheduler_conf=CONFIGURATION, default_queue="default")
        self.configuration.schedule_period.FromMilliseconds(20)

    def add(self, body: dict[str, Any], uid: str) -> None:
        body["metadata"]["uid"] = uid
        message = translate(body)
        assert message is not None
        self.store.put(message)

    async def bind(self, order: Bind) -> ApplyResult:
        if self.is_slow:
            await asyncio.sleep(self._rng.uniform(0, 0.02))
        copied = self.store.copy(KIND_POD, order.uid)
        if copied is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        if copied.pod.node_name:
            return ApplyResult(ApplyCode.PLACED, node=copied.pod.node_name)
        self.writes += 1
        self.bound[order.name] += 1
        copied.pod.node_name = order.node
        copied.pod.phase = POD_PHASE_RUNNING
        self.store.put(copied)
        return DONE

    async def write_status(self, change: StatusChange) -> ApplyResult:
        self.writes += 1
        if change.HasField("pod_group"):
            copied = self.store.copy(KIND_POD_GROUP, change.pod_group.uid)
            if copied is not None:
                copied.pod_group.status.CopyFrom(change.pod_group.status)
                self.store.put(copied)
        elif change.HasField("pod"):
            self._write_condition(change)
        else:
            self._write_queue(change)
        return DONE

    def _write_condition(self, change: StatusChange) -> None:
        copied = self.store.copy(KIND_POD, change.pod.uid)
        if copied is not None and not copied.pod.node_name:
            del copied.pod.conditions[:]
            copied.pod.conditions.add(
                type="PodScheduled",
                status=CONDITION_STATUS_FALSE,
                reason=change.pod.reason,
                message=change.pod.message,
            )
            self.store.put(copied)

    def _write_queue(self, change: StatusChange) -> None:
        copied = self.store.copy(KIND_QUEUE, change.queue.uid)
        if copied is not None:
            copied.queue.allocated.clear()
            for name, amount in change.queue.allocated.items():
                copied.queue.allocated[name] = amount
            self.store.put(copied)

    async def write_event(self, event: Event) -> ApplyResult:
        self.writes += 1
        self.events[event.name, event.reason, event.message] += 1
        return DONE

    # What is compared.

    def placements(self) -> dict[str, str]:
        return {one.pod.name: one.pod.node_name for one in self.store.of_kind(KIND_POD)}

    def statuses(self) -> dict[str, object]:
        groups = {
            one.pod_group.name: shown_group(one.pod_group)
            for one in self.store.of_kind(KIND_POD_GROUP)
        }
        pods = {one.pod.name: shown_pod(one.pod) for one in self.store.of_kind(KIND_POD)}
        return {**groups, **pods}

    def torn(self) -> list[str]:
        """Gangs of which some pods have a node and others not."""
        nodes: dict[str, set[bool]] = {}
        for one in self.store.of_kind(KIND_POD):
            nodes.setdefault(one.pod.group_name, set()).add(bool(one.pod.node_name))
        return [name for name, placed in nodes.items() if len(placed) > 1]


def shown_group(group: PodGroup) -> object:
    # Ids and times of transitions are new in every session.
    conditions = [(c.type, c.status, c.reason, c.message) for c in group.status.conditions]
    return (group.status.phase, group.status.running, sorted(conditions))


def shown_pod(pod: Pod) -> object:
    return sorted((c.type, c.status, c.reason, c.message) for c in pod.conditions)


class Walk:
    """Steps from a seed; the same ones for every run."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._count = 0
        self._gangs: dict[str, int] = {}

    def begin(self, cluster: Cluster) -> None:
        for name in ("root", "default"):
            body = queue_body(name)
            body["status"] = {"state": "Open"}
            cluster.add(body, f"queue-{name}")
        self._add_node(cluster)

    def step(self, cluster: Cluster) -> None:
        self._count += 1
        steps = (self._add_gang, self._add_gang, self._add_node, self._delete_gang)
        self._rng.choice(steps)(cluster)

    def _add_node(self, cluster: Cluster) -> None:
        name = f"node-{self._count:02}"
        cluster.add(node_body(name), f"uid-{name}")

    def _add_gang(self, cluster: Cluster) -> None:
        name, size = f"gang-{self._count:02}", self._rng.randint(1, 5)
        self._gangs[name] = size
        cpu = self._rng.choice(("1", "2"))
        cluster.add(pod_group_body(name, size), f"uid-{name}")
        for number in range(size):
            cluster.add(pod_body(name, number, cpu), f"uid-{name}-{number}")

    def _delete_gang(self, cluster: Cluster) -> None:
        if not self._gangs:
            return
        name = self._rng.choice(sorted(self._gangs))
        for number in range(self._gangs.pop(name)):
            cluster.store.remove(KIND_POD, f"uid-{name}-{number}")
        cluster.store.remove(KIND_POD_GROUP, f"uid-{name}")


class Run:
    """One walk, with a core and adapters that come and go."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self.walk, self.cluster = Walk(seed), Cluster(random.Random(seed))
        self._start_adapter()

    def _start_adapter(self) -> None:
        self.runtime = AdapterRuntime(self.cluster, self._stage.open_channel, quick())
        self._task = asyncio.create_task(self.runtime.run())

    async def restart(self, *, core: bool) -> None:
        """Without a word to anybody."""
        await end_tasks(self._task)
        if core:
            await self._stage.core.crash()
            await self._stage.start_core()
        self._start_adapter()

    async def rest(self) -> None:
        """Until nobody has anything to do: the core finds that no session is needed."""
        # On a busy machine a change or a decision may be on its way for longer than one round.
        writes, quiet = -1, 0
        while quiet < 3:
            quiet = quiet + 1 if writes == self.cluster.writes and self.runtime.is_idle else 0
            await until(lambda: self.runtime.is_served and self.runtime.is_idle, "it is settled")
            writes = self.cluster.writes
            await self._until_skipped(self._skipped + 3)

    async def _until_skipped(self, count: float) -> None:
        await until(lambda: self._skipped >= count, "no session is needed")

    @property
    def _skipped(self) -> float:
        return self._stage.core.metric("pumice_sessions_skipped_total")

    async def end(self) -> None:
        await end_tasks(self._task)


State = tuple[dict[str, str], dict[str, object]]


async def undisturbed(folder: Path, seed: int) -> tuple[list[State], set[tuple[str, str, str]]]:
    """Placements and statuses after each step, and all events."""
    folder.mkdir()
    async with Stage(folder) as stage:
        run = Run(stage, seed)
        run.walk.begin(run.cluster)
        seen = []
        for _ in range(STEPS):
            run.walk.step(run.cluster)
            await run.rest()
            seen.append((run.cluster.placements(), run.cluster.statuses()))
        await run.end()
    return seen, set(run.cluster.events)


@pytest.mark.parametrize("core", [False, True], ids=["adapter", "both"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_restart_at_rest_changes_nothing(folder: Path, seed: int, core: bool) -> None:
    expected, told = await undisturbed(folder / "first", seed)
    rng = random.Random(seed)
    (folder / "second").mkdir()
    async with Stage(folder / "second") as stage:
        run = Run(stage, seed)
        run.walk.begin(run.cluster)
        for number in range(STEPS):
            run.walk.step(run.cluster)
            await run.rest()
            if rng.random() < 0.4:
                events, writes = dict(run.cluster.events), run.cluster.writes
                await run.restart(core=core)
                await run.rest()
                assert (dict(run.cluster.events), run.cluster.writes) == (events, writes)
            assert (run.cluster.placements(), run.cluster.statuses()) == expected[number]
        # How often an event comes again depends on where sessions begin.
        assert set(run.cluster.events) == told
        assert not [name for name, count in run.cluster.bound.items() if count > 1]
        await run.end()


@pytest.mark.parametrize("core", [False, True], ids=["adapter", "both"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_restart_at_any_moment_tears_nothing(folder: Path, seed: int, core: bool) -> None:
    expected, _ = await undisturbed(folder / "first", seed)
    rng = random.Random(seed)
    (folder / "second").mkdir()
    async with Stage(folder / "second") as stage:
        run = Run(stage, seed)
        run.cluster.is_slow = True
        run.walk.begin(run.cluster)
        for number in range(STEPS):
            run.walk.step(run.cluster)
            if rng.random() < 0.6:
                await asyncio.sleep(rng.uniform(0, 0.15))
                await run.restart(core=core)
            await run.rest()
            assert not run.cluster.torn()
            running = {name for name, node in run.cluster.placements().items() if node}
            assert running == {name for name, node in expected[number][0].items() if node}
        assert not [name for name, count in run.cluster.bound.items() if count > 1]
        await run.end()
