"""A tally of pods counts the same, whether it has an array or not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pumice.core.cache.labels import LabelColumn
from pumice.core.cache.pods import PodQuestion, PodTally
from pumice.core.model.selectors import LabelSelector

ROWS = 200
QUESTION = PodQuestion(None, LabelSelector(), alive=False)
# Rows that get a pod or lose one that they have, and moments at which the array is read.
STEPS = st.lists(st.tuples(st.integers(0, ROWS - 1), st.booleans(), st.booleans()), max_size=150)


@given(STEPS, st.booleans())
def test_counts_are_those_of_an_array(steps: list[tuple[int, bool, bool]], by_value: bool) -> None:
    nobody = np.zeros(ROWS, dtype=np.int32)
    tally, expected = PodTally(QUESTION, nobody), np.zeros(ROWS, dtype=np.int32)
    column = LabelColumn(np.arange(ROWS, dtype=np.int32) % 3 - 1, {"a": 0, "b": 1})
    if by_value:
        tally.by_value("zone", column)
    for row, comes, is_read in steps:
        if not comes and not expected[row]:
            continue
        sign = 1 if comes else -1
        tally.change(row, sign)
        expected[row] += sign
        if is_read:
            assert tally.counts.tolist() == expected.tolist()
    sums = [int(expected[column.codes == code].sum()) for code in (0, 1)]
    assert tally.by_value("zone", column).tolist() == [*sums, 0]
    assert tally.counts.tolist() == expected.tolist()
    assert tally.total == expected.sum()
    assert not nobody.any()


def test_an_array_stays_the_same_once_there_is_a_pod() -> None:
    """Terms of scores are given to the kernel once, with the array in them."""
    tally = PodTally(QUESTION, np.zeros(ROWS, dtype=np.int32))
    empty = tally.counts
    tally.change(3, 1)
    first = tally.counts
    assert first is not empty
    for row in range(ROWS):
        tally.change(row, 1)
    assert tally.counts is first
    assert first[3] == 2


def test_many_rows_have_an_array_before_it_is_read() -> None:
    tally = PodTally(QUESTION, np.zeros(ROWS, dtype=np.int32))
    for row in range(ROWS):
        tally.change(row, 1)
    assert tally.counts.tolist() == [1] * ROWS
