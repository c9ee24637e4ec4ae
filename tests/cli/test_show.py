"""``pumice show``: what a core holds, as a user reads it."""

import asyncio
import json
from typing import Any

import pytest
import yaml

from pumice.v1.pod_pb2 import POD_PHASE_RUNNING
from tests.cli.test_queries import Run, ask
from tests.server import running
from tests.server.conftest import core, socket_folder
from tests.server.running import RunningCore, configuration, gang, node, queue

__all__ = ["ask", "core", "socket_folder"]


def objects() -> list[Any]:
    small, large = gang("small", 2), gang("large", 1, cpu=99_000)
    for held in (small, large):
        held[0].pod_group.queue = "red"
    return [queue("red", weight=3), node("n1"), node("n2"), *small, *large]


async def test_every_list_is_a_table(core: RunningCore, ask: Run) -> None:
    adapter = await core.served(objects())
    await adapter.decisions()
    shown = {
        what: (await ask("show", what)).out
        for what in ("queues", "jobs", "nodes", "sessions", "session", "config")
    }
    assert "red" in shown["queues"]
    assert "deserved" in shown["queues"]
    assert "team/large" in shown["jobs"]
    assert "above the queue's limit" in shown["jobs"]
    assert [line.split()[0] for line in shown["nodes"].splitlines() if line.startswith("n")] == [
        *("node", "n1", "n2")
    ]
    assert shown["sessions"].splitlines()[2].split()[0] == "1"
    assert "bind  team/small: 2 pods to" in shown["session"]
    assert "ms/session" in shown["session"]
    assert "a session every 1 s, eager" in shown["config"]
    assert "compiled kernel " in shown["config"]
    assert not any("\x1b" in text for text in shown.values())


async def test_top_shows_the_time_of_actions_and_plugins(core: RunningCore, ask: Run) -> None:
    adapter = await core.served(objects())
    await adapter.decisions()
    told = json.loads((await ask("top", "--json")).out)
    (allocate,) = [t for t in told["times"] if (t["action"], t["plugin"]) == ("allocate", "")]
    assert allocate["session_count"] == allocate["call_count"] >= 1
    assert "ms/session" in (await ask("top")).out
    assert "ms/session" not in (await ask("top", "--times", "0")).out


async def test_jobs_are_chosen_by_namespace_queue_and_phase(core: RunningCore, ask: Run) -> None:
    adapter = await core.served(objects())
    await adapter.decisions()

    async def names(*options: str) -> list[str]:
        ended = await ask("show", "jobs", "--json", *options)
        return [job["name"] for job in json.loads(ended.out)]

    assert await names() == ["large", "small"]
    assert await names("--namespace", "other") == []
    assert await names("--queue", "red") == ["large", "small"]
    assert await names("--queue", "blue") == []
    assert await names("--phase", "completed") == []
    misspelt = await ask("show", "jobs", "--queue", "rd")
    assert misspelt.code == 0
    assert "no queue 'rd'; similar names: red" in misspelt.err
    assert "None found." in misspelt.err
    wrong = await ask("show", "jobs", "--phase", "sleeping")
    assert (wrong.code, "'inqueue'" in wrong.err) == (2, True)


async def test_a_refused_configuration_is_shown_with_its_lines(core: RunningCore, ask: Run) -> None:
    adapter = await core.served(objects())
    await adapter.configure(configuration("actions: x\n"))
    text = (await ask("show", "config")).out
    assert "another configuration was rejected" in text
    assert "line 1: actions: unknown action 'x'" in text
    told = yaml.safe_load((await ask("show", "config", "-o", "yaml")).out)
    assert told["rejected"]["scheduler_conf"] == "actions: x\n"


async def test_a_session_that_is_not_kept_comes_with_those_that_are(
    core: RunningCore, ask: Run
) -> None:
    await core.served(objects())
    await core.session(1)
    ended = await ask("show", "session", 7)
    assert ended.code == 2
    assert "no session 7; sessions 1 to 1 are kept" in ended.err


@pytest.mark.parametrize("what", ["queues", "jobs", "nodes", "sessions", "config"])
async def test_an_unknown_cluster_is_answered_with_near_names(
    core: RunningCore, ask: Run, what: str
) -> None:
    await core.served(objects(), cluster="production")
    ended = await ask("show", what, "--cluster", "produktion")
    assert (ended.code, ended.out) == (2, "")
    assert "did you mean production?" in ended.err


async def test_room_that_is_promised_is_shown(core: RunningCore, ask: Run) -> None:
    cordoned = running.node("n1")
    cordoned.node.unschedulable = True
    await core.served([running.queue(), cordoned])
    await core.session(1)
    ended = await ask("show", "nodes")
    assert "n1 (cordoned)" in ended.out
    assert "pipelined" in ended.out


async def test_programs_get_numbers_and_every_key(core: RunningCore, ask: Run) -> None:
    adapter = await core.served(objects())
    await adapter.decisions()
    (red,) = json.loads((await ask("show", "queues", "--json")).out)
    assert red["weight"] == 3
    assert red["share"]["allocated"]["cpu"] == 2000
    assert red["unknown_job_count"] == 0
    assert red["capability"] is None
    large, small = json.loads((await ask("show", "jobs", "--json")).out)
    assert (small["reasons"], large["reasons"][0]["code"]) == ([], "queue quota")
    assert list(small) == list(large)
    told = json.loads((await ask("explain", "job", "team/large", "--json")).out)
    assert told["without_nodes"] is False
    assert told["history"][0]["first_seen_time"].endswith("+00:00")


async def test_clusters_are_listed_with_their_state(core: RunningCore, ask: Run) -> None:
    adapter = await core.served(objects())
    await adapter.decisions()
    shown = (await ask("show", "clusters")).out
    assert shown.splitlines()[0].split()[0] == "cluster"
    assert shown.splitlines()[2].split()[0] == "c1"
    assert shown.splitlines()[2].endswith("scheduled")
    (found,) = json.loads((await ask("show", "clusters", "--json")).out)
    assert found["object_counts"]["node"] == 2
    assert found["pause"] is None


async def test_a_paused_cluster_is_told_wherever_one_looks(core: RunningCore, ask: Run) -> None:
    """The adapter is gone: what was decided is still shown, with why nothing more is."""
    adapter = await core.served(objects())
    await adapter.decisions()
    adapter.cut()
    clusters = ""
    for _ in range(100):
        clusters = (await ask("show", "clusters")).out
        if "paused" in clusters:
            break
        await asyncio.sleep(0.05)
    assert "paused: no adapter" in clusters
    for what in ("queues", "jobs", "nodes", "sessions"):
        assert "the cluster is paused" in (await ask("show", what)).err
    for command in (("top",), ("explain", "job", "team/large"), ("show", "config")):
        assert "the cluster is paused" in (await ask(*command)).out
    told = json.loads((await ask("top", "--json")).out)
    assert told["pause"]["reason"] == "no adapter"
    ended = await ask("forget", "c1")
    assert ended.code == 0
    assert ended.out.startswith("c1: removed; its highest epoch was ")
    assert json.loads((await ask("show", "clusters", "--json")).out) == []


async def test_a_connected_cluster_is_removed_by_force_only(core: RunningCore, ask: Run) -> None:
    await core.served(objects())
    ended = await ask("forget", "c1")
    assert ended.code == 2
    assert "connected" in ended.err
    assert (await ask("forget", "c1", "--force")).code == 0
    missing = await ask("forget", "c2")
    assert missing.code == 2


async def test_eta_tells_when_a_job_starts(core: RunningCore, ask: Run) -> None:
    full = running.pod("first", 0, 4000, phase=POD_PHASE_RUNNING, node_name="n1")
    full.pod.annotations["pumice.sh/run-time"] = "10m"
    full.pod.start_time.FromNanoseconds(running.START)
    waiting = [*gang("next", 1), *gang("large", 1, cpu=99_000)]
    adapter = await core.served([queue(), node("n1"), running.group("first", 1), full, *waiting])
    await adapter.next("status_batch")
    ended = await ask("eta", "team/next")
    assert ended.code == 0, ended
    assert "team/next is expected to start in 10 min" in ended.out
    told = json.loads((await ask("eta", "team/next", "--json")).out)
    assert (told["outcome"], told["basis"]["annotation_count"]) == ("expected", 1)
    ended = await ask("eta", "team/large")
    assert (ended.code, "would never start in the current state" in ended.out) == (1, True)
    ended = await ask("eta", "team/nxt")
    assert (ended.code, "did you mean team/next" in ended.err) == (2, True)
    ended = await ask("eta", "team/next-0")
    assert (ended.code, "pumice eta --pod team/next-0" in ended.err) == (2, True)
    assert "expected to start" in (await ask("eta", "--pod", "team/next-0")).out
    assert "expected to start" in (await ask("explain", "job", "team/next", "--eta")).out
    assert "expected to start" not in (await ask("explain", "job", "team/next")).out
