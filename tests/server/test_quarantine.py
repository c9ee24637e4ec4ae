"""Bad objects, bad configurations and drift: named, contained and healed."""

from pumice.v1 import cluster_service_pb2, object_pb2
from tests.server.running import (
    RunningCore,
    ScriptedAdapter,
    configuration,
    gang,
    node,
    pod,
    queue,
    tombstone,
)

EMPTY = [queue(), node("n1")]
BAD_POD = pod("job", 0, cpu=-5)
POD = object_pb2.KIND_POD
NODE = object_pb2.KIND_NODE


async def test_a_bad_object_is_named_and_the_rest_counts(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    ack = await adapter.tell(*gang("good", 1), BAD_POD)
    (rejected,) = ack.rejected
    assert (rejected.kind, rejected.uid, rejected.key) == (POD, "pod-job-0", "team/job-0")
    assert (rejected.seq, rejected.field) == (adapter.seq, "spec.requests[cpu]")
    assert core.metric("pumice_quarantined_objects") == 1
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["good-0"]


async def test_a_bad_object_among_many_is_named_by_its_own_number(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    counted = core.metric("pumice_ops_total")
    ack = await adapter.tell(*gang("good", 9), BAD_POD, *gang("more", 9))
    (rejected,) = ack.rejected
    assert (rejected.uid, rejected.seq) == ("pod-job-0", adapter.seq - 10)
    assert core.metric("pumice_ops_total") == counted + 21
    await adapter.digest()
    await adapter.tell(node("n2"))
    assert core.metric("pumice_drift_total") == 0


async def test_the_last_good_version_stays(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.tell(*gang("job", 1), BAD_POD)
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_good_version_heals(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.tell(*gang("job", 0), BAD_POD)
    ack = await adapter.tell(pod("job", 0))
    assert not ack.rejected
    assert core.metric("pumice_quarantined_objects") == 0
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_tombstone_heals(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.tell(BAD_POD)
    await adapter.tell(tombstone(POD, "pod-job-0"))
    assert core.metric("pumice_quarantined_objects") == 0


async def test_bad_objects_count_in_digests(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, BAD_POD])
    await adapter.digest()
    await adapter.tell(node("n2"))
    assert core.metric("pumice_drift_total") == 0


# Drift.


def lose(adapter: ScriptedAdapter) -> None:
    """The adapter holds a node that the core was never told of."""
    adapter.upserts([node("n2")])


async def test_drift_is_healed_by_a_snapshot_of_the_kind(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    lose(adapter)
    await adapter.digest()
    resync = await adapter.next("resync")
    assert list(resync.kinds) == [NODE]
    assert core.metric("pumice_drift_total") == 1
    await adapter.snapshot([node("n1"), node("n2")], kinds=[NODE])
    await adapter.digest()
    await adapter.tell(*gang("job", 2, cpu=4000))
    core.clock.advance(1)
    assert sorted(d.bind.node for d in await adapter.decisions()) == ["n1", "n2"]
    assert core.metric("pumice_drift_total") == 1


async def test_what_a_snapshot_of_a_kind_leaves_out_is_gone(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1"), node("n2")])
    adapter.sums.drop(NODE, "node-n2")
    await adapter.snapshot([node("n1")], kinds=[NODE])
    await adapter.tell(*gang("job", 1, cpu=4000), *gang("more", 1, cpu=4000))
    core.clock.advance(1)
    assert [d.bind.node for d in await adapter.decisions()] == ["n1"]


async def test_healing_that_fails_twice_raises_an_alarm_and_pauses(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    lose(adapter)
    await adapter.digest()
    await adapter.next("resync")
    adapter.sums.put(NODE, "ghost", 1)
    await adapter.snapshot([node("n1"), node("n2")], kinds=[NODE])
    await adapter.next("resync")
    await adapter.snapshot([node("n1"), node("n2")], kinds=[NODE])
    assert core.metric("pumice_drift_alarm") == 1
    ran = core.metric("pumice_sessions_total")
    await adapter.tell(*gang("job", 1))
    core.clock.advance(5)
    await adapter.tell(queue("other"))
    assert core.metric("pumice_sessions_total") == ran
    # The adapter comes to its senses.
    adapter.sums.drop(NODE, "ghost")
    await adapter.digest()
    await adapter.tell(queue("third"))
    assert core.metric("pumice_drift_alarm") == 0
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_nothing_is_decided_on_a_snapshot_that_differs(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    lose(adapter)
    await adapter.snapshot([*EMPTY, *gang("job", 1)])
    assert list((await adapter.next("resync")).kinds) == [NODE]
    core.clock.advance(5)
    await adapter.tell(queue("other"))
    assert core.metric("pumice_sessions_total") == 0
    await adapter.snapshot([node("n1"), node("n2")], kinds=[NODE])
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


# The configuration.

BAD_TEXT = 'actions: "enqueue, alocate"\n'


async def test_nothing_is_decided_without_a_configuration(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.snapshot([*EMPTY, *gang("job", 1)], configuration(BAD_TEXT))
    core.clock.advance(5)
    await adapter.tell(queue("other"))
    assert core.metric("pumice_sessions_total") == 0
    assert (await adapter.configure(configuration())).accepted
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_bad_configuration_is_refused_and_the_last_good_one_kept(
    core: RunningCore,
) -> None:
    adapter = await core.served(EMPTY)
    good = await adapter.configure(configuration('actions: "enqueue, allocate"\ntiers: []\n'))
    bad = await adapter.configure(configuration(BAD_TEXT))
    assert (good.accepted, bad.accepted, bad.seq) == (True, False, adapter.seq)
    assert good.effective_config_hash == bad.effective_config_hash != ""
    problem = bad.problems[0]
    assert (problem.line, problem.path, problem.suggestion) == (1, "actions", "allocate")
    await adapter.tell(*gang("job", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_the_last_good_configuration_outlives_a_snapshot(core: RunningCore) -> None:
    adapter = await core.served(EMPTY, configuration('actions: "allocate"\ntiers: []\n'))
    adapter.cut()
    again = core.adapter(incarnation="i2")
    welcome = await again.connect()
    await again.snapshot(EMPTY, configuration(BAD_TEXT))
    assert welcome.effective_config_hash


async def test_pods_of_other_schedulers_become_ours_by_configuration(core: RunningCore) -> None:
    theirs = pod("job", 0)
    theirs.pod.spec.scheduler_name = "batch"
    adapter = await core.served([*EMPTY, gang("job", 1)[0], theirs])
    await adapter.tell(configuration(scheduler_names=["batch", "volcano"]))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_an_error_of_our_own_drops_the_state_and_asks_for_a_snapshot(
    core: RunningCore,
) -> None:
    adapter = await core.served(EMPTY)
    await core.session(1)
    cluster = core.server._clusters.find("c1")

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    cluster.served.state.session = fail  # type: ignore[method-assign, assignment]
    await adapter.tell(*gang("job", 1))
    core.clock.advance(1)
    code, _ = await adapter.ended_with()
    assert code.name == "ABORTED"
    again = core.adapter(last_acknowledged_seq=adapter.seq)
    welcome = await again.connect()
    assert welcome.mode == cluster_service_pb2.WELCOME_MODE_SNAPSHOT
    await again.snapshot([*EMPTY, *gang("job", 1)])
    assert [d.bind.name for d in await again.decisions()] == ["job-0"]
