"""Benchmarks over the stream, tiny: a core in a process of its own, and what comes out."""

import pytest

from pumice.bench import catalogue
from pumice.bench.catalogue import RunOptions
from pumice.bench.clusters import Size
from pumice.bench.delay import delay
from pumice.bench.ingest import ingest
from pumice.bench.memory import memory
from pumice.bench.portal import portal
from pumice.bench.queries import queries
from pumice.bench.replaying import judge_candidates, replay
from pumice.bench.snapshot import client_view, snapshot

TINY = Size(8, 6, 4, classes=3, has_background=False)
_CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: proportion
"""


def test_a_snapshot_ends_with_the_decision_on_the_pod_that_waits() -> None:
    figures = snapshot(TINY, runs=1).figures
    # A configuration, the queues, nodes and gangs with their pods, and a gang of one.
    assert figures["deltas"] == 1 + 4 + 8 + 6 + 24 + 2
    assert 0 < float(str(figures["stream_s"])) < float(str(figures["seconds_with_first_session"]))


def test_allocate_is_seen_by_a_client_in_one_session() -> None:
    (found,) = catalogue.BENCHES["allocate"](TINY, RunOptions())
    assert found.figures["bound"] == TINY.pods
    assert found.figures["client_sessions"] == 1
    assert float(str(found.figures["client_s"])) > 0


def test_a_client_s_core_gets_the_configuration() -> None:
    assert client_view(TINY, _CONF)["client_sessions"] == 1


def test_every_delta_of_a_snapshot_and_every_change_is_counted() -> None:
    first, large, small = (
        result.figures for result in ingest(Size(8, 10, 4, classes=3, has_background=False))
    )
    assert first["deltas"] == 1 + 4 + 8 + 10 + 40 + 2
    assert (large["deltas"], small["deltas"]) == (40, 4)
    assert all(int(str(figures["deltas_per_s"])) > 0 for figures in (first, large, small))


@pytest.mark.timeout(120)
def test_delays_are_measured_when_idle_and_under_load() -> None:
    decision, delta, health = delay(Size(50, 10, 4, classes=3), rounds=2, probes=5, arrivals=1)
    assert [result.bench for result in (decision, delta, health)] == [
        "delay decision",
        "delay delta",
        "delay health",
    ]
    for when in ("idle", "steady", "flood"):
        assert decision.figures[f"{when}_count"] == 2
        assert float(str(decision.figures[f"{when}_p99_ms"])) > 0
    assert int(str(decision.figures["flood_deltas_per_s"])) > 0
    assert delta.figures["idle_count"] == 5
    # Fifty gangs arrive at a time.
    assert int(str(delta.figures["placed"])) >= 200
    assert int(str(health.figures["session_count"])) >= 1


def test_memory_is_that_of_a_recording_core_after_three_sessions() -> None:
    figures = memory(TINY, minutes=8).figures
    # A pod of each class comes with either later session, and a gang each minute.
    assert figures["bound"] == TINY.pods + 2 * TINY.classes + 8 * TINY.size
    assert {"resident_mib", "growth_mib"} < set(figures)
    assert figures["sessions"] == 3
    assert int(str(figures["last_session"])) >= 3
    assert int(str(figures["recording_bytes"])) > 0
    assert 2**20 < int(str(figures["empty_bytes"])) <= int(str(figures["most_bytes"]))
    assert {"resident_bytes", "bytes_per_node", "bytes_per_pod"} < set(figures)


def test_a_core_is_asked_while_its_nodes_change() -> None:
    explained, scheduled = queries(Size(8, 10, 4, classes=3), questions=3, gang_size=6, requests=2)
    assert (explained.bench, scheduled.bench) == ("explain", "schedule")
    assert explained.figures["pending"] == 8
    assert (explained.figures["job_count"], explained.figures["pod_count"]) == (3, 3)
    assert float(str(explained.figures["job_p99_ms"])) > 0
    assert scheduled.figures["bound"] == 6


def test_a_portal_asks_one_after_the_other_and_all_at_once() -> None:
    (found,) = portal(Size(4, 4, 2, classes=1), questions=2, callers=5)
    assert found.bench == "portal"
    assert (found.figures["placed_count"], found.figures["waiting_count"]) == (2, 2)
    assert found.figures["at_once_count"] == 5
    assert float(str(found.figures["cpu_ms"])) > 0


def test_three_candidates_are_judged() -> None:
    figures = judge_candidates(Size(8, 1, 4, classes=3), periods=20, processes=1).figures
    assert (figures["candidates"], figures["jobs"]) == (3, 40)
    assert float(str(figures["cpu_s"])) > 0


def test_a_replayed_cluster_places_all_that_came_and_lets_it_go() -> None:
    figures = replay(Size(8, 1, 4, classes=3), periods=150).figures
    # There is room for 64 gangs, and the first end after a minute: others follow them.
    assert 64 * 4 < int(str(figures["decisions"])) < 150 * 8
    assert figures["pods_per_period"] == 8
    assert float(str(figures["times_real_time"])) > 0
