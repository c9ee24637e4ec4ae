"""What would have happened: with the recorded configuration, what did."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pumice.evaluation import Candidate, what_if
from pumice.evaluation.figures import ALL, Figures, figures
from pumice.recordings import Recording, session_times
from pumice.recordings.closed_loop import ClosedLoop
from pumice.recordings.history import ExternalEvent, History
from pumice.recordings.session_times import SessionTimes, period_and_eagerness
from pumice.server import session_timer as server_pacing
from pumice.server.local import LocalSession, leave_recording
from pumice.testing import recordings_in
from pumice.v1 import delta_pb2, object_pb2
from pumice.v1.configuration_pb2 import Configuration
from tests.replay.walks import PACKING
from tests.server.running import queue

PERIOD_NS = 1_000_000_000
GOLDEN = recordings_in(Path(__file__).parents[1] / "recordings")
FROM_PROCESSES = [path for path in GOLDEN if path.stem != "volumes"]
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


def read(path: Path) -> History:
    with Recording(path) as held:
        return History.read(held.entries())


def both(path: Path, conf: str | None = None, **changes: Any) -> tuple[Figures, Figures]:
    found = what_if([path], Candidate(conf, **changes))
    return found.old, found.new


def simulated(path: Path, leaves: int, *, as_recorded: bool = True) -> tuple[Figures, Figures]:
    """Simulated from a session on, although it decides as recorded."""
    with Recording(path) as held:
        history = History.read(held.entries())
        past = History.read(held.entries(), sessions=leaves)
        left = leave_recording(held.entries(), at=leaves)
    assert left is not None
    period_ns, eager = period_and_eagerness(left.core.configuration)
    ticks = history.ticks[leaves:]
    times = SessionTimes(
        ticks,
        period_ns,
        eager=eager,
        as_recorded=as_recorded,
        durations_ns=history.durations_ns,
    )
    loop = ClosedLoop(history, left.core, times, past=past)
    loop.run(first=left.session)
    return (
        figures(history, history.pods, history.evictions),
        figures(history, loop.records, loop.evictions),
    )


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_recorded_configuration_reproduces_what_was_recorded(path: Path) -> None:
    old, new = both(path)
    assert new == old
    with Recording(path) as held:
        text = History.read(held.entries()).configuration.scheduler_conf
    assert both(path, text) == (old, old)


@pytest.mark.parametrize("leaves", [0, 7, 20])
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_simulated_world_reproduces_the_recorded_waiting_times(path: Path, leaves: int) -> None:
    """Also from the middle, with all that is on its way there."""
    check_alike(*simulated(path, leaves))


@pytest.mark.parametrize("path", FROM_PROCESSES, ids=lambda path: path.stem)
def test_recordings_of_processes_hold_sessions_long_before_the_period_was_over(path: Path) -> None:
    gaps = [after - before for before, after in pairwise(read(path).ticks)]
    assert median(gaps) < PERIOD_NS / 4


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_so_does_a_pace_that_knows_the_first_session_only(path: Path) -> None:
    check_alike(*simulated(path, 0, as_recorded=False))


def check_alike(old: Figures, new: Figures) -> None:
    assert old.jobs.keys() == new.jobs.keys()
    for name, job in old.jobs.items():
        again = new.jobs[name].wait
        assert (job.wait is None) == (again is None), name
        if job.wait is not None and again is not None:
            assert abs(job.wait - again) <= 1.0, name
    for name, made in old.queues.items():
        assert abs(made.mean_wait - new.queues[name].mean_wait) <= 1.0
        assert abs(made.cpu_share - new.queues[name].cpu_share) <= 0.02
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
    assert len(new.curves.seconds) == len(old.curves.seconds)
    assert 0 < new.queues[ALL].cpu_share <= 1


def test_it_is_the_same_every_time() -> None:
    assert both(GOLDEN[0], PACKING) == both(GOLDEN[0], PACKING)


def test_without_eager_sessions_jobs_wait_longer() -> None:
    path = next(path for path in GOLDEN if "evictions" in path.stem)
    _, eager = both(path)
    _, slow = both(path, eager=False)
    _, slower = both(path, eager=False, period_seconds=3.0)
    waits = [found.queues[ALL].mean_wait for found in (eager, slow, slower)]
    assert waits == sorted(waits)
    assert waits[0] + 0.2 < waits[1] < waits[2] - 0.2


class Sessions:
    """A core that decides nothing, and notes when it was asked."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.placement_changes = 0
        self.gangs_are_complete = False
        self.configuration = Configuration()

    def apply(self, ops: Sequence[delta_pb2.Op], now_ns: int) -> None:
        self.placement_changes += 1

    def session(self, now_ns: int) -> LocalSession:
        self.times.append(now_ns)
        return LocalSession(len(self.times), now_ns)

    def next_wake(self, now_ns: int) -> int | None:
        return None


def times_of(arrivals: Sequence[int], end_ns: int, **pacing_: Any) -> list[int]:
    """When sessions run, in milliseconds, as queues arrive at some of them."""
    millisecond = 1_000_000
    history = History(0, end_ns * millisecond)
    for number, at_ns in enumerate(arrivals):
        held = queue(f"q{number}")
        event = ExternalEvent(at_ns * millisecond, held, object_pb2.KIND_QUEUE, held.queue.uid)
        history.external.append(event)
    ticks = [tick * millisecond for tick in pacing_.pop("ticks", [0])]
    core = Sessions()
    core.gangs_are_complete = pacing_.pop("complete", False)
    ClosedLoop(history, core, SessionTimes(ticks, PERIOD_NS, **pacing_)).run()
    return [time // millisecond for time in core.times]


def test_an_eager_core_decides_when_changes_have_settled() -> None:
    arrivals = [1200, 1230, 1270, 3000]
    assert times_of(arrivals, 5000, eager=True) == [0, 1300, 3050]
    assert times_of([1200, 1210, 3000], 5000, eager=True, complete=True) == [0, 1225, 3015]


def test_changes_that_never_settle_are_waited_for_a_tenth_of_a_second() -> None:
    assert times_of(range(10, 340, 40), 340, eager=True) == [0, 110, 230]


def test_a_core_that_is_not_eager_decides_every_period() -> None:
    assert times_of([1200, 1230, 3500], 5000, eager=False) == [0, 2000, 4000]


def test_a_recorded_session_is_the_one_that_a_change_called_for() -> None:
    ticks = [0, 1258, 4000]
    found = times_of([1200, 2000], 5000, eager=True, ticks=ticks)
    # The second change called for one that is not in the recording.
    assert found == [0, 1258, 2050, 4000]


def test_eager_means_the_same_as_in_a_core() -> None:
    names = ("QUIET_NS", "COMPLETE_QUIET_NS", "LONGEST_WAIT_NS")
    own = [getattr(session_times, name) for name in names]
    assert own == [getattr(server_pacing, name) for name in names]


def test_a_core_that_is_busy_waits_until_it_is_quiet() -> None:
    found = times_of([1200, 1240, 1280], 1400, eager=True, durations_ns=[40_000_000])
    # Sessions of 40 ms leave 160 ms to others, so the second one waits until it is quiet.
    assert found == [0, 1300]
    found = times_of([1200, 1280, 1300, 1340], 1500, eager=True, durations_ns=[40_000_000])
    assert found == [0, 1250, 1390]
