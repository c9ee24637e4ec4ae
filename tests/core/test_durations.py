"""Durations are what Go makes of them."""

import pytest

from pumice.core.model.quantities import MAX_DURATION_LENGTH, parse_duration_ns

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("5s", 5 * SECOND),
        ("+5s", 5 * SECOND),
        ("-5s", -5 * SECOND),
        ("1h2m3s", 3723 * SECOND),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("10ns", 10),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("10μs", 10_000),
        ("10ms", 10_000_000),
        ("1000000h", 3_600_000_000 * SECOND),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("9223372036854775807ns", 2**63 - 1),
    ],
)
def test_a_duration_is_read(text: str, nanoseconds: int) -> None:
    assert parse_duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "5", "s", ".s", "1h 2m", "1d", "1.2.3s", "5S", "9223372036854775808ns", "²s"],
)
def test_anything_else_is_refused(text: str) -> None:
    assert parse_duration_ns(text) is None


def test_the_length_of_a_duration_is_limited() -> None:
    most = MAX_DURATION_LENGTH
    assert parse_duration_ns("0" * (most - 2) + "1h") == 3600 * 10**9
    assert parse_duration_ns("0" * (most - 1) + "1h") is None
    # Python reads no number of so many digits.
    assert parse_duration_ns("0" * 5000 + "1h") is None
    assert parse_duration_ns("1ns" * (most // 3)) == most // 3
    assert parse_duration_ns("1ns" * most) is None
