"""The page about speed is made from printed lines and from nothing else."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pumice.bench.chart import Chart
from pumice.bench.report import found, read_lines, summary, write_report
from pumice.bench.report_rows import ROWS
from pumice.bench.results import Result
from tests.cli.commands import pumice as run_pumice

CIRCLE = "{http://www.w3.org/2000/svg}circle"


def allocated(nodes: int, pods: int, rate: int, **more: object) -> str:
    figures = {"nodes": nodes, "pods": pods, "gang_size": 10, "pods_per_s": rate}
    return Result("allocate", "", {**figures, "session_s": pods / rate, **more}).line()


def idle(running: int, milliseconds: float) -> str:
    figures = {"nodes": 5000, "running": running, "median_ms": milliseconds}
    return Result("idle", "", figures).line()


LINES = [
    allocated(1000, 10_000, 63_000, client_s=0.5),
    allocated(5000, 10_000, 11_000, client_s=1.5),
    allocated(5000, 50_000, 20_000),
    idle(50_000, 7.5),
    "somebody else printed this",
]


@pytest.fixture
def page(tmp_path: Path) -> list[str]:
    return write_report(LINES, "2026-01-02", tmp_path).read_text(encoding="utf-8").splitlines()


def row(page: list[str], start: str) -> list[str]:
    (line,) = [line for line in page if line.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_bar_that_is_reached_is_said_to_be(page: list[str]) -> None:
    cells = row(page, "allocate | 1,000 nodes")
    assert cells[2:-1] == [
        *("63,000 pods/s", "0.5 s at the client", "≥ 50,000 pods/s", "yes"),
        *("130 to 252 pods/s", "250x"),
    ]


def test_a_bar_that_is_not_reached_is_said_not_to_be(page: list[str]) -> None:
    assert row(page, "allocate | 5,000 nodes, 1,000 x 10")[5] == "no"
    assert row(page, "idle")[2:6] == ["7.5 ms", "", "< 5 ms", "no"]


def test_what_was_not_measured_is_said_not_to_be(page: list[str]) -> None:
    assert row(page, "memory")[2] == "not measured"


def test_less_time_than_volcano_is_a_ratio_above_one(tmp_path: Path) -> None:
    figures = {"nodes": 1000, "running": 8000, "arriving": 500, "session_s": 0.1}
    lines = [Result("preempt", "", figures).line()]
    text = write_report(lines, "2026-01-02", tmp_path).read_text(encoding="utf-8")
    assert row(text.splitlines(), "preempt |")[6:8] == ["3.1 s", "31x"]


def test_the_day_and_the_machine_are_on_the_page(page: list[str]) -> None:
    line = json.loads(LINES[0])
    (said,) = [text for text in page if text.startswith("Measured on")]
    assert said.startswith(
        f"Measured on 2026-01-02: {line['cores']} cores, Python {line['python']}"
    )


def test_every_plot_on_the_page_is_there_and_shows_every_size(
    page: list[str], tmp_path: Path
) -> None:
    linked = [text.rpartition("(")[2].rstrip(")") for text in page if text.startswith("![")]
    points = {name: len(ElementTree.parse(tmp_path / name).findall(CIRCLE)) for name in linked}
    assert points == {
        "speed/allocate-nodes.svg": 2,
        "speed/allocate-pods.svg": 2,
        "speed/idle-pods.svg": 1,
        "speed/snapshot-pods.svg": 0,
    }


def test_a_line_is_drawn_upwards_for_more() -> None:
    drawn = ElementTree.fromstring(Chart("t", "x", "y", [(1, 1), (2, 3)]).svg())
    first, second = drawn.findall(CIRCLE)
    assert float(second.attrib["cx"]) > float(first.attrib["cx"])
    assert float(second.attrib["cy"]) < float(first.attrib["cy"])


def test_the_result_that_a_client_saw_is_the_one_shown() -> None:
    lines = read_lines([LINES[0], allocated(1000, 10_000, 50_000)])
    shown = found(ROWS[0], lines)
    assert shown is not None
    assert shown["pods_per_s"] == 63_000


def test_the_summary_says_which_bars_are_reached() -> None:
    *rows, count = summary(LINES).splitlines()
    assert count.startswith("1 of ")
    assert [" ".join(line.split()) for line in rows if line.startswith("idle")] == [
        "idle 5,000 nodes, 50,000 running pods, no change < 5 ms 7.5 ms no "
        f"{json.loads(LINES[3])['machine_speed']:g}"
    ]


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(LINES), encoding="utf-8")
    into = tmp_path / "docs"
    done = run_pumice(
        capsys, "bench", "report", str(lines), "--date", "2026-01-02", "--into", str(into)
    )
    assert done.code == 0
    assert "targets reached" in done.out
    assert (into / "speed.md").read_text(encoding="utf-8").startswith("# Speed\n")
