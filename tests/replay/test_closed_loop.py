"""What would have happened: with the recorded configuration, what did."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.recordings import Recording
from pumice.recordings.closed_loop import ClosedLoop
from pumice.recordings.figures import ALL, Figures, figures
from pumice.recordings.history import History
from pumice.server.local import LocalCore
from pumice.testing import recordings_in
from pumice.v1.configuration_pb2 import Configuration
from tests.replay.walks import PACKING

GOLDEN = recordings_in(Path(__file__).parents[1] / "recordings")
PERIOD_NS = 1_000_000_000
WITHOUT_EVICTIONS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def both(path: Path, conf: str | None = None) -> tuple[Figures, Figures]:
    with Recording(path) as held:
        history = History.read(held.entries())
    configuration = Configuration()
    configuration.CopyFrom(history.configuration)
    if conf is not None:
        configuration.scheduler_conf = conf
    loop = ClosedLoop(history, LocalCore(configuration), PERIOD_NS)
    loop.run()
    return (
        figures(history, history.pods, history.evictions),
        figures(history, loop.lives, loop.evictions),
    )


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_recorded_configuration_reproduces_the_recorded_waiting_times(path: Path) -> None:
    old, new = both(path)
    assert old.jobs.keys() == new.jobs.keys()
    for name, job in old.jobs.items():
        again = new.jobs[name].wait
        assert (job.wait is None) == (again is None), name
        if job.wait is not None and again is not None:
            assert abs(job.wait - again) <= 1.0, name
    for queue, made in old.queues.items():
        assert abs(made.mean_wait - new.queues[queue].mean_wait) <= 1.0
        assert abs(made.cpu_share - new.queues[queue].cpu_share) <= 0.02
    assert abs(old.queues[ALL].evictions - new.queues[ALL].evictions) <= 3


def test_without_evicting_actions_nobody_is_evicted() -> None:
    path = next(path for path in GOLDEN if "evictions" in path.stem)
    old, new = both(path, WITHOUT_EVICTIONS)
    assert old.queues[ALL].evictions > 20
    assert new.queues[ALL].evictions == 0


def test_other_figures_come_with_another_configuration() -> None:
    path = next(path for path in GOLDEN if "evictions" in path.stem)
    old, new = both(path, PACKING)
    assert new.queues[ALL].mean_wait != old.queues[ALL].mean_wait
    assert len(new.curve) == len(old.curve)
    assert 0 < new.queues[ALL].cpu_share <= 1


def test_it_is_the_same_every_time() -> None:
    assert both(GOLDEN[0], PACKING) == both(GOLDEN[0], PACKING)
