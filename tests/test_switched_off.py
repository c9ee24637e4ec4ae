"""The proof that every part is needed works; ``python -m tests.switched_off`` gives all of it."""

import pytest

from tests.switched_off import ACTIONS, FAMILIES, NEEDED, PLUGINS, UNIT_TESTS, main, measure


@pytest.mark.parametrize("part", ["backfill", "sla"])
def test_without_the_part_tests_fail(part: str) -> None:
    assert len(measure(part, enough=NEEDED).failed) == NEEDED


def test_parts_with_tests_of_their_own_choice_exist() -> None:
    assert (FAMILIES.keys() | UNIT_TESTS.keys()) <= {*ACTIONS, *PLUGINS}


def test_a_part_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gagn"]) == 2
    assert capsys.readouterr().out.startswith("no action or plugin 'gagn'; there are: enqueue, ")
