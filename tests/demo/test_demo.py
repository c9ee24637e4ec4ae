"""``pumice demo`` with real processes: it ends by itself, and survives that either of them dies."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.demo.processes import RunningDemo, command, is_alive, running_demo, until

SMALL = ("--nodes", 4, "--jobs", 25, "--seconds", 18)


@pytest.fixture
def folder() -> Iterator[Path]:
    # Paths of sockets are short; pytest's own folders are not.
    with TemporaryDirectory(prefix="pumice") as made:
        yield Path(made)


def is_scheduling(demo: RunningDemo) -> bool:
    return re.search(r"session \d+ +[1-9]\d* bound", demo.output()) is not None


def assert_nothing_left(demo: RunningDemo, pids: dict[str, int], folder: Path) -> None:
    until(lambda: not any(map(is_alive, pids.values())), "no process is left")
    assert demo.children() == {}
    assert list(folder.glob("pumice-demo-*")) == []


def test_it_ends_by_itself_with_every_gang_whole(folder: Path) -> None:
    with running_demo(folder, *SMALL) as demo:
        pids = demo.both_children()
        assert demo.ended() == 0, demo.errors()
        assert_nothing_left(demo, pids, folder)
    lines = demo.output().splitlines()
    assert any("session" in line and "waiting" in line for line in lines)
    address = lines[1].rpartition(" ")[2]
    assert lines[1] == f"  pumice top --core {address}"
    names = [line[:10].strip() for line in lines[-5:]]
    assert names == ["pods", "gangs", "sessions", "API calls", "time"]
    assert lines[-4].startswith("gangs     25 of 25 whole, 0 in part")
    # The last line of the live view has the counts of the summary.
    assert re.search(r"(\d+ bound, \d+ evicted)", lines[-6]), lines
    assert lines[-6].partition("session")[2].split(None, 1)[1].startswith(lines[-5][10:])


@pytest.mark.parametrize("victim", ["core", "adapter"])
def test_it_goes_on_when_a_process_is_killed(folder: Path, victim: str) -> None:
    with running_demo(folder, *SMALL) as demo:
        until(lambda: is_scheduling(demo), "pods are bound")
        killed = demo.kill(victim)
        until(lambda: demo.both_children()[victim] != killed, "it was started again")
        pids = demo.both_children()
        assert demo.ended() == 0, demo.errors()
        assert_nothing_left(demo, pids, folder)
    assert f"{victim} died (SIGKILL) and was restarted" in demo.output()
    assert "gangs     25 of 25 whole, 0 in part" in demo.output()
    assert demo.output().endswith(f"restarts  {victim} 1\n")


def test_it_survives_the_death_of_both_at_any_moment(folder: Path) -> None:
    with running_demo(folder, *SMALL, "--json") as demo:
        # Once while they start, and again as soon as they are back.
        for victim in ("adapter", "core", "adapter", "core"):
            killed = demo.kill(victim)
            until(lambda: demo.both_children()[victim] != killed, "it was started again")  # noqa: B023
        assert demo.ended() == 0, demo.errors()
    figures = demo.figures()
    assert (figures["gangs_whole"], figures["gangs_short"]) == (25, 0)
    assert figures["restarts"] == {"core": 2, "adapter": 2}
    assert figures["api_calls"]["bind"] >= figures["pods_bound"] > 0


@pytest.mark.parametrize("wish", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["at the start", "in the middle"])
def test_a_wish_to_end_leaves_no_process(folder: Path, wish: signal.Signals, moment: str) -> None:
    with running_demo(folder, *SMALL) as demo:
        pids = demo.both_children()
        if moment == "in the middle":
            until(lambda: is_scheduling(demo), "pods are bound")
        demo.process.send_signal(wish)
        assert demo.ended() == 130
        assert_nothing_left(demo, pids, folder)
    assert "interrupted" in demo.errors()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
def test_its_processes_end_when_it_is_killed(folder: Path) -> None:
    with running_demo(folder, *SMALL) as demo:
        pids = demo.both_children()
        demo.process.kill()
        demo.process.wait()
        until(lambda: not any(is_alive(pid) for pid in pids.values()), "both have ended")


def test_it_is_kept_and_can_be_queried_at_the_address_that_it_names(folder: Path) -> None:
    """The commands that it prints work; Ctrl-C ends it with a summary of the same counts."""
    with running_demo(folder, "--nodes", 4, "--jobs", 3, "--seconds", 3, "--keep") as demo:
        until(lambda: is_scheduling(demo), "pods are bound")
        words = demo.output().splitlines()[1].split()
        found = subprocess.run(
            command(*words[1:]), capture_output=True, text=True, check=True, timeout=60
        )
        assert "research" in found.stdout
        assert "node-0003" in found.stdout
        # Three seconds and three jobs are long over.
        until(lambda: re.search(r"^ *9\.\d s ", demo.output(), re.MULTILINE), "nine seconds passed")
        pids = demo.both_children()
        demo.process.send_signal(signal.SIGINT)
        assert demo.ended() == 0, demo.errors()
        assert_nothing_left(demo, pids, folder)
    (counted,) = re.findall(r"^pods +(\d+) bound", demo.output(), re.MULTILINE)
    live = [int(count) for count in re.findall(r"session \d+ +(\d+) bound", demo.output())]
    assert live[-1] <= int(counted)


def test_the_live_count_is_that_of_the_summary(folder: Path) -> None:
    """Both come from the cluster; decisions that were not applied do not count."""
    with running_demo(folder, *SMALL, "--fault", "refused-binds=0.3") as demo:
        assert demo.ended() == 0, demo.errors()
    live = [int(count) for count in re.findall(r"session \d+ +(\d+) bound", demo.output())]
    (counted,) = re.findall(r"^pods +(\d+) bound", demo.output(), re.MULTILINE)
    assert live[-1] <= int(counted)
    assert live[-1] >= int(counted) * 0.9
