"""Tests of our scheduler configuration."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.testing import Cluster, assert_replay_identical, assert_scenario, recordings_in

HERE = Path(__file__).parent
CONF = (HERE.parent / "scheduler.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("recording", recordings_in(HERE / "recordings"), ids=lambda p: p.stem)
def test_recorded_decisions_are_reproduced(recording: Path) -> None:
    assert_replay_identical(recording)


def test_a_gang_starts_whole_or_not_at_all(pumice_cluster: Callable[[str], Cluster]) -> None:
    cluster = pumice_cluster(CONF).nodes(2, cpu="4").job("train", pods=3, cpu="2")
    cluster.job("large", pods=9, cpu="2")
    first = cluster.cycle()
    assert {pod.rpartition("-")[0] for pod in first.binds} == {"default/train"}
    assert "default/large" in first.waits


def test_a_waiting_job_starts_when_another_finishes(empty_cluster: Cluster) -> None:
    empty_cluster.node("n1", cpu="4").job("first", pods=2, cpu="2").job("next", pods=2, cpu="2")
    assert sorted(empty_cluster.cycle().binds) == ["default/first-0", "default/first-1"]
    empty_cluster.finish("first")
    assert sorted(empty_cluster.cycle().binds) == ["default/next-0", "default/next-1"]


def test_a_recorded_session_still_passes() -> None:
    assert_scenario(HERE / "session.json")
