"""Counted work stays within the thresholds of ``bench/cases.yaml``, and its reader is strict."""

from pathlib import Path

import pytest

from pumice.bench.cases import (
    COUNTS,
    Case,
    CasesError,
    fitted,
    product,
    read_cases,
    tightened,
)
from pumice.bench.catalogue import ENGINE_BENCHES
from pumice.bench.clusters import Size
from pumice.bench.engines import kernels
from pumice.bench.results import Result
from tests.cli.commands import pumice as run_pumice

CASES = read_cases()
SIZE = Size(10, 5, 4, 2, 3)
GOOD = """\
cases:
  - name: small
    bench: allocate
    size: {nodes: 4, jobs: 2, size: 2}
    expect:
      bound: pods
    at_most:
      tasks_tried: 100 * pods
      rows_computed: 100
"""


@pytest.mark.parametrize("kernel_name", kernels())
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_work_stays_within_its_bounds(case: Case, kernel_name: str) -> None:
    result = case.run(kernel_name)
    assert case.problems(result) == []


def test_every_count_of_the_engine_is_known_and_bounded_somewhere() -> None:
    small = Size(8, 6, 4, classes=3, has_background=False)
    seen = {name for bench in ENGINE_BENCHES.values() for name in bench(small).work}
    bounded = {name for case in CASES for name in case.at_most}
    assert sorted(bounded) == sorted(COUNTS)
    assert seen <= bounded


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "cases.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_problem_names_case_count_and_bound(tmp_path: Path) -> None:
    (case,) = read_cases(written(tmp_path, GOOD))
    found = Result("allocate", "", {"bound": 3}, {"tasks_tried": 401, "rows_computed": 100})
    assert case.problems(found) == [
        "case small: bound is 3, not 4 (pods)",
        "case small: tasks_tried is 401; the maximum is 400 (100 * pods)",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "bench: allocate",
            "bench: alocate",
            "case small: bench: unknown benchmark 'alocate'; allowed: allocate,",
        ),
        (
            "tasks_tried:",
            "tasks_tired:",
            "at_most: unknown count 'tasks_tired'; allowed: candidates_scored,",
        ),
        ("100 * pods", "100 * podz", "at_most.tasks_tried: 'podz' is neither a number nor one of"),
        ("bound: pods", "bound: -1", "expect.bound: '-1' is neither a number nor one of"),
        ("nodes: 4", "nodes: 0", "size.nodes: must be 1 or more"),
        ("nodes: 4", "nods: 4", "unknown field `nods`"),
        ("    bench: allocate\n", "", "missing required field `bench`"),
        ("cases:", "cases: [", "while parsing"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(CasesError) as caught:
        read_cases(written(tmp_path, GOOD.replace(old, new)))
    assert said in str(caught.value)


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    text = GOOD + GOOD.partition("\n")[2]
    with pytest.raises(CasesError, match="case small: duplicate name"):
        read_cases(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CasesError, match=r"nowhere.yaml: No such file"):
        read_cases(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("text", "worth"),
    [(7, 7), ("1.5 * nodes", 15), ("classes * nodes", 30), ("0.1 * pods", 2), ("waiting", 1)],
)
def test_a_bound_is_a_product(text: int | str, worth: float) -> None:
    assert product(text, SIZE) == worth


def test_a_fitted_bound_keeps_its_words_and_leaves_a_margin() -> None:
    assert fitted("50 * nodes * classes", SIZE, 30) == "1.2 * nodes * classes"
    assert fitted("nodes", SIZE, 10) == "1.2 * nodes"
    assert fitted(100, SIZE, 10) == "12"
    assert fitted(100, SIZE, 0) == fitted("5 * nodes", SIZE, 0) == "0"


def test_bounds_are_lowered_and_never_raised(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    cases = read_cases(file)
    after = tightened(GOOD, {"small": {"tasks_tried": 4, "rows_computed": 500}}, cases)
    assert after == GOOD.replace("100 * pods", "1.2 * pods")


def test_the_command_ends_with_1_when_a_bound_is_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, GOOD.replace("100 * pods", "0.5 * pods"))
    done = run_pumice(capsys, "bench", "cases", "--file", str(file))
    assert done.code == 1
    problem = "case small: tasks_tried is 4; the maximum is 2 (0.5 * pods)"
    assert done.out.splitlines() == [
        *(f"{kernel_name}: {problem}" for kernel_name in kernels()),
        f"1 cases, {len(kernels())} problems",
    ]


def test_the_command_tightens_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, GOOD)
    done = run_pumice(capsys, "bench", "cases", "--file", str(file), "--suggest", "--tighten")
    assert done.code == 0
    assert "small: tasks_tried: 4 of 400 (100 * pods); fits: 1.2 * pods" in done.out
    assert "tasks_tried: 1.2 * pods" in file.read_text(encoding="utf-8")


def test_a_bad_file_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, GOOD.replace("allocate", "alocate"))
    done = run_pumice(capsys, "bench", "cases", "--file", str(file))
    assert done.code == 2
    assert "case small: bench: unknown benchmark 'alocate'" in done.err
