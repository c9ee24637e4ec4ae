"""``pumice bench eta``, and the time of actions and plugins in results of benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

from pumice.bench import placing
from pumice.bench.clusters import Size
from pumice.bench.configurations import read_profile
from pumice.bench.estimates import Sample, estimates
from pumice.core.configuration import Arguments, PluginOptions
from pumice.core.registry import Registry
from pumice.core.session.session import Session
from tests.cli.commands import pumice

DEMO = Path(__file__).parents[1] / "recordings" / "demo-with-evictions.pumice"


def test_estimates_are_compared_with_the_recorded_demo() -> None:
    figures = estimates(DEMO, moments=4).figures
    assert int(str(figures["estimates"])) > 0
    assert 0 <= float(str(figures["in_range"])) <= 1
    assert figures["median_error_s"] is not None


@pytest.mark.parametrize(
    ("earliest", "latest", "actual", "is_in_range"),
    [(1, 3, 2, True), (1, 3, 4, False), (1, None, 99, True), (None, None, 1, False)],
)
def test_a_start_is_in_its_range(
    earliest: float | None, latest: float | None, actual: float, is_in_range: bool
) -> None:
    assert Sample("j", earliest, 2, latest, actual, {}).is_in_range is is_in_range


def test_run_times_of_other_recordings_are_known_from_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ("--moments", "1", "--run-times", str(DEMO.parent))
    ended = pumice(capsys, "bench", "eta", str(DEMO), *given)
    assert ended.code == 0, ended
    assert json.loads(ended.out)["known_run_times"] > 50


def test_what_is_no_recording_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.pumice"
    other.write_bytes(b"no recording")
    ended = pumice(capsys, "bench", "eta", str(other))
    assert (ended.code, "is not a recording" in ended.err) == (2, True)


class SlowPlugin:
    """Scores node by node."""

    name: ClassVar[str] = "slow"
    api: ClassVar[int] = 1
    arguments: ClassVar[type[Arguments]] = Arguments

    def __init__(self, options: PluginOptions) -> None:
        pass

    def open(self, session: Session) -> None:
        session.hooks.node_score[self.name] = lambda _task, _node: 1.0


def test_a_benchmark_shows_the_time_of_an_installed_plugin() -> None:
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: slow\n"
    profile = read_profile("own", conf, registry=Registry([SlowPlugin]))
    size = Size(4, 2, 2, classes=1, has_background=False)
    told = json.loads(placing.allocate(size, profile).line())
    assert told["plugins_ms"]["slow in allocate"] > 0
    assert told["actions_ms"]["allocate"] >= told["plugins_ms"]["slow in allocate"]
    assert "gang in open" in told["plugins_ms"]
