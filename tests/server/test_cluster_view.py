"""The board: a cluster as it stands between sessions, for those who must not wait for one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pumice.server.cluster_view import ClusterView, PodState, ViewPublisher
from pumice.server.state import ClusterState
from pumice.v1 import inspection_service_pb2 as pb
from pumice.v1 import object_pb2, pod_pb2
from tests.replay.walks import OLDER, PACKING, Walk
from tests.server.holding import Hold, holding_core, in_a_session
from tests.server.running import (
    RunningCore,
    configuration,
    gang,
    group,
    node,
    pod,
    queue,
    tombstone,
)


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture
async def core(socket_folder: Path, hold: Hold) -> AsyncIterator[RunningCore]:
    async with holding_core(socket_folder, hold) as running:
        yield running


async def test_lists_answer_while_a_session_runs(core: RunningCore, hold: Hold) -> None:
    seq = await in_a_session(core, hold, node("n2"), *gang("other", 1))
    stub = core.inspection()
    nodes = await stub.ListNodes(pb.ListNodesRequest())
    jobs = await stub.ListJobs(pb.ListJobsRequest())
    queues = await stub.ListQueues(pb.ListQueuesRequest())
    config = await stub.GetConfig(pb.GetConfigRequest())
    assert not hold.let_go.is_set()
    assert [n.name for n in nodes.nodes] == ["n1", "n2"]
    assert nodes.nodes[0].used["cpu"] == 2000
    assert [(j.name, j.bound_count, j.pending_count) for j in jobs.jobs] == [
        ("job", 2, 0),
        ("other", 0, 1),
    ]
    assert [q.share.name for q in queues.queues] == ["default"]
    assert config.effective_config_hash
    for answer in (nodes, jobs, queues):
        assert (answer.session, answer.based_on_seq) == (1, seq)


async def test_after_the_session_the_news_is_shown(core: RunningCore, hold: Hold) -> None:
    await in_a_session(core, hold, *gang("other", 1))
    stub = core.inspection()
    before = await stub.ListJobs(pb.ListJobsRequest())
    hold.let_go.set()
    await core.session(2)
    after = await stub.ListJobs(pb.ListJobsRequest())
    assert [job.bound_count for job in before.jobs] == [2, 0]
    assert [job.bound_count for job in after.jobs] == [2, 1]
    assert after.session == 2


async def test_a_new_snapshot_takes_the_old_view_away(core: RunningCore) -> None:
    await core.served([queue(), node("n1"), *gang("job", 2)])
    await core.session(1)
    stub = core.inspection()
    assert (await stub.ListJobs(pb.ListJobsRequest())).jobs
    await core.served([queue(), node("n9")], incarnation="i2")
    assert not (await stub.ListJobs(pb.ListJobsRequest())).jobs
    names = [n.name for n in (await stub.ListNodes(pb.ListNodesRequest())).nodes]
    assert names == ["n9"]


def seen(board: ViewPublisher, state: ClusterState) -> ClusterView:
    board.session_begins(state)
    view = board.during_session()
    board.session_ended()
    assert view is not None
    return view


def check(view: ClusterView, state: ClusterState) -> None:
    """The view is what a walk over everything finds."""
    cache = state.engine.cache
    shown = {id_ for id_, job in cache.jobs.items() if job.group is not None}
    assert set(view.jobs) == shown
    for id_ in shown:
        job, row = cache.jobs[id_], view.jobs[id_]
        assert row.group == job.group
        assert (row.queue, row.priority) == (job.queue, job.priority)
        assert row.counts == {s: len(t) for s, t in job.index.by_status.items() if t}
        assert row.allocated == job.index.allocated
    table = cache.table
    assert view.nodes.names == sorted(name for name, e in table.entries.items() if e.node)
    for name, entry in table.entries.items():
        if entry.node is None:
            assert view.nodes.missing[name] == len(entry.tasks)
            continue
        at = view.nodes.names.index(name)
        assert view.nodes.pods[at] == len(entry.tasks)
        assert view.nodes.unschedulable[at] == entry.node.unschedulable
        assert view.nodes.used[:, at].tolist() == table.used[:, entry.row].tolist()
        assert view.nodes.idle[:, at].tolist() == table.idle[:, entry.row].tolist()
    assert [q.name for q in view.queues] == list(cache.session_queues())
    assert set(view.requests) == set(state.engine.accounts)


@pytest.mark.parametrize(
    ("conf", "fields"),
    [
        (PACKING, {}),
        (OLDER, {"compat": ["kube-batch"], "scheduler_names": ["volcano"]}),
        (None, {}),
    ],
    ids=["packing", "kube-batch", "evicting"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_kept_up_job_by_job_it_shows_what_there_is(
    seed: int, conf: str | None, fields: dict[str, Any]
) -> None:
    walk = Walk(seed, **({} if conf is None else {"conf": conf}), **fields)
    board = ViewPublisher()
    views: list[tuple[ClusterView, dict[str, Any]]] = []

    def look(_: int) -> None:
        view = seen(board, walk.state)
        check(view, walk.state)
        views.append((view, dict(view.jobs)))

    walk.run(25, look)
    # Whoever holds an old view still sees what was true then.
    assert all(view.jobs == then for view, then in views)


def test_it_answers_while_the_owner_does_something_else_and_only_then() -> None:
    walk, board = Walk(1), ViewPublisher()
    walk.run(3)
    assert board.during_session() is None
    with board.while_busy(walk.state):
        view = board.during_session()
        assert view is not None
        assert view.session == 3
    assert board.during_session() is None


def test_keeping_it_up_costs_what_changed() -> None:
    walk = Walk(1, PACKING)
    walk.run(20)
    board = ViewPublisher()
    seen(board, walk.state)
    assert board.jobs_read == len(walk.state.engine.cache.jobs)
    for _ in range(3):
        walk.session()
    nodes = seen(board, walk.state).nodes
    before = board.jobs_read
    assert seen(board, walk.state).nodes is nodes
    walk.session()
    gone = next(iter(walk.state.engine.cache.groups))
    walk.take([tombstone(object_pb2.KIND_POD_GROUP, gone.uid)])
    assert gone.key not in seen(board, walk.state).jobs
    assert board.jobs_read == before + 1


async def test_room_promised_to_pods_that_wait_is_shown(core: RunningCore) -> None:
    preempting = configuration(
        'actions: "enqueue, allocate, preempt"\n'
        "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n"
        "- plugins:\n  - name: predicates\n  - name: proportion\n"
    )
    low = pod("low", 0, 3000, node_name="n1", phase=pod_pb2.POD_PHASE_RUNNING, priority=1)
    high = group("high", 1, priority_class_name="high")
    urgent = object_pb2.ClusterObject()
    urgent.priority_class.uid = urgent.priority_class.name = "high"
    urgent.priority_class.value = 100
    objects = [queue(), node("n1"), urgent, group("low", 0), low, high]
    adapter = await core.served([*objects, pod("high", 0, 3000, priority=100)], preempting)
    (decision,) = await adapter.decisions()
    assert decision.evict.name == "low-0"
    (shown,) = (await core.inspection().ListNodes(pb.ListNodesRequest())).nodes
    assert shown.releasing["cpu"] == 3000
    assert shown.pipelined["cpu"] == 3000


@pytest.mark.parametrize(
    ("conf", "fields"),
    [(None, {}), (OLDER, {"compat": ["kube-batch"], "scheduler_names": ["volcano"]})],
    ids=["evicting", "kube-batch"],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_pods_stood_is_seen_until_the_session_has_ended(
    seed: int, conf: str | None, fields: dict[str, Any]
) -> None:
    board, moved = ViewPublisher(), 0

    class Watched(Walk):
        """Looks after every session at what was before it."""

        def session(self) -> None:
            nonlocal moved
            board.session_begins(self.state)
            view, tasks = board.during_session(), self.state.engine.cache.tasks
            assert view is not None
            stood = {
                task.name: PodState(task.uid, task.name, task.job_id, task.status, task.node_name)
                for task in tasks.values()
            }
            super().session()
            assert {name: view.pods.find("team", name) for name in stood} == stood
            moved += sum(task.status is not stood[task.name].status for task in tasks.values())
            assert board.is_current(view)
            board.session_ended()
            assert not board.is_current(view)

    Watched(seed, **({} if conf is None else {"conf": conf}), **fields).run(25)
    assert moved
