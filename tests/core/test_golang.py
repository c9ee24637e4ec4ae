"""Booleans, integers and durations are read as Go reads them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.patterns.golang import (
    MAX_DURATION_LENGTH,
    parse_bool,
    parse_decimal,
    parse_duration_ns,
    parse_int,
)

SECOND = 10**9
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": MINUTE,
         "h": HOUR}  # fmt: skip


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_six_words_are_true(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_six_words_are_false(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "yes", "no", "tRUE", " true", "on", "2"])
def test_no_other_word_is_a_boolean(text: str) -> None:
    assert parse_bool(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("+7", 7), ("-7", -7), ("007", 7), ("2147483647", 2**31 - 1),
     ("-2147483648", -(2**31)), ("2147483648", None), ("", None), ("1.0", None), ("1_0", None),
     (" 1", None), ("0x1", None), ("9" * 100, None), ("+", None)],
)  # fmt: skip
def test_integers_of_32_bits(text: str, number: int | None) -> None:
    assert parse_int(text, bits=32) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("1000", 1000.0), ("-1.5", -1.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("", None),
     ("1_0", None), (" 1", None), ("abc", None), ("nan", None)],
)  # fmt: skip
def test_decimal_numbers(text: str, number: float | None) -> None:
    assert parse_decimal(text) == number


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("5s", 5 * SECOND),
        ("30s", 30 * SECOND),
        ("1478s", 1478 * SECOND),
        ("-5s", -5 * SECOND),
        ("+5s", 5 * SECOND),
        ("-0", 0),
        ("+0", 0),
        ("5.0s", 5 * SECOND),
        ("5.6s", 5_600_000_000),
        ("5.s", 5 * SECOND),
        (".5s", SECOND // 2),
        ("1.0040s", 1_004_000_000),
        ("100.00100s", 100_001_000_000),
        ("10ns", 10),
        ("11us", 11_000),
        ("12µs", 12_000),
        ("12μs", 12_000),
        ("13ms", 13_000_000),
        ("15m", 15 * MINUTE),
        ("16h", 16 * HOUR),
        ("3h30m", 3 * HOUR + 30 * MINUTE),
        ("10.5s4m", 4 * MINUTE + 10_500_000_000),
        ("-2m3.4s", -(2 * MINUTE + 3_400_000_000)),
        ("1h2m3s4ms5us6ns", HOUR + 2 * MINUTE + 3 * SECOND + 4_005_006),
        ("39h9m14.425s", 39 * HOUR + 9 * MINUTE + 14_425_000_000),
        ("52763797000ns", 52_763_797_000),
        ("0.3333333333333333333h", 20 * MINUTE),
        ("9007199254740993ns", 2**53 + 1),
        ("9223372036854775807ns", 2**63 - 1),
        ("9223372036854775.807us", 2**63 - 1),
        ("9223372036s854ms775us807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("-9223372036854775.808us", -(2**63)),
        ("0.100000000000000000000h", 6 * MINUTE),
        ("0.830103483285477580700h", 49 * MINUTE + 48_372_539_827),
        ("1000000h", 1_000_000 * HOUR),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert parse_duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "3", "-", "s", ".", "-.", ".s", "+.s", "\x85\x85", "1d", "1 h", " 1h", "1h ", "1hm",
     "1.5", "1e3s", "1H", "9223372036854775808ns", "9223372036854775.808us",
     "9223372036854ms775us808ns", "-9223372036854775809ns", "3000000h", "1" * 40 + "s"],
)  # fmt: skip
def test_what_go_refuses_is_no_duration(text: str) -> None:
    assert parse_duration_ns(text) is None


@given(st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(sorted(UNITS))), min_size=1))
def test_terms_add_up(terms: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in terms)
    expected = sum(number * UNITS[unit] for number, unit in terms)
    assert parse_duration_ns(text) == (expected if expected < 2**63 else None)


@given(st.integers(0, 1000), st.from_regex(r"[0-9]{1,9}", fullmatch=True), st.sampled_from("sm"))
def test_decimals_are_exact_to_the_nanosecond(whole: int, decimals: str, unit: str) -> None:
    exact = Fraction(f"{whole}.{decimals}") * UNITS[unit]
    read = parse_duration_ns(f"{whole}.{decimals}{unit}")
    assert read is not None
    # Go multiplies floats, and so may lose one.
    assert exact - 1 < read <= exact


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    parse_bool(text)
    parse_int(text)
    parse_decimal(text)
    parse_duration_ns(text)


def test_the_length_of_a_duration_is_limited() -> None:
    most = MAX_DURATION_LENGTH
    assert parse_duration_ns("0" * (most - 2) + "1h") == 3600 * 10**9
    assert parse_duration_ns("0" * (most - 1) + "1h") is None
    # Python reads no number of so many digits.
    assert parse_duration_ns("0" * 5000 + "1h") is None
    assert parse_duration_ns("1ns" * (most // 3)) == most // 3
    assert parse_duration_ns("1ns" * most) is None
