"""Every scenario prints what it says; ``pytest --rewrite`` writes what is printed."""

from pathlib import Path

import pytest

from tests import dsl

CASES = sorted((Path(__file__).parent / "scenarios").glob("*.case"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    case = dsl.read_case(path)
    printed = dsl.play(case)
    if rewrite:
        path.write_text(dsl.rewritten(case, printed), encoding="utf-8")
        return
    assert printed == [cycle.expected for cycle in case.cycles]


def test_rewriting_changes_nothing_that_was_right() -> None:
    for path in CASES:
        case = dsl.read_case(path)
        assert dsl.rewritten(case, [cycle.expected for cycle in case.cycles]) == case.text
