"""Small clusters on which the reference scheduler was asked: pumice decides the same, file by file."""

import json
from pathlib import Path

import pytest

from pumice.cli.simulate import START_NS
from pumice.cli.simulation.runs import run
from pumice.cli.simulation.scenarios import Scenario, read_scenario
from pumice.cli.simulation.verdicts import difference
from pumice.core import kernel

FILES = sorted(Path(__file__).parent.glob("*.json"))


def scenario_of(path: Path) -> Scenario:
    return read_scenario(json.loads(path.read_text(encoding="utf-8")), path.name)


def family_of(path: Path) -> str:
    return path.name.partition("-")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_decides_as_the_reference_did(path: Path) -> None:
    scenario = scenario_of(path)
    assert scenario.set_aside == ()
    differs = difference(scenario, run(scenario, START_NS, as_recorded=True).outcomes)
    assert differs is None, str(differs)


@pytest.mark.skipif(kernel.rows is None, reason="the kernel is not compiled here: no C compiler")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_decides_the_same_without_the_kernel(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "rows", None)
    scenario = scenario_of(path)
    differs = difference(scenario, run(scenario, START_NS, as_recorded=True).outcomes)
    assert differs is None, str(differs)


def test_a_file_is_of_the_family_that_its_name_says() -> None:
    assert len(FILES) >= 350
    # A second family of one name has a number behind it.
    others = {
        p.name for p in FILES if scenario_of(p).family not in (f := family_of(p), f.rstrip("2"))
    }
    assert others == set()
