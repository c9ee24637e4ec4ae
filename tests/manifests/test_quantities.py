"""Quantities are what Kubernetes says they are, to the last billionth."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import (
    MAX_INT64,
    milli_value,
    nanos,
    saturated_milli_value,
    value,
)

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


def away_from_zero(number: Fraction) -> int:
    magnitude = -(-abs(number).numerator // abs(number).denominator)
    return magnitude if number >= 0 else -magnitude


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("0.5", 1, 500),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("+3", 3, 3000),
        ("007", 7, 7000),
        ("1k", 1000, 10**6),
        ("1M", 10**6, 10**9),
        ("1G", 10**9, 10**12),
        ("1T", 10**12, 10**15),
        ("1P", 10**15, 10**18),
        ("1Ki", 1024, 1024 * 1000),
        ("1Mi", 2**20, 2**20 * 1000),
        ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
        ("0.1Ki", 103, 102400),
        ("1Pi", 2**50, 2**50 * 1000),
        ("1e3", 1000, 10**6),
        ("1E3", 1000, 10**6),
        ("1e+3", 1000, 10**6),
        ("1e-3", 1, 1),
        ("12e-1", 2, 1200),
        ("1u", 1, 1),
        ("1n", 1, 1),
        ("999999999n", 1, 1000),
        ("1000000001n", 2, 1001),
        ("0.0000000001", 1, 1),
        ("1e-400", 1, 1),
        ("0e400", 0, 0),
        ("-1", -1, -1000),
        ("-1.5", -2, -1500),
        ("-1u", -1, -1),
    ],
)
def test_a_quantity_is_rounded_up_to_units_and_to_thousandths(
    text: str, whole: int, milli: int
) -> None:
    assert (value(text), milli_value(text)) == (whole, milli)


@pytest.mark.parametrize(
    ("number", "milli"), [(2, 2000), (0.5, 500), (0, 0), (1.25, 1250), (1e22, None)]
)
def test_numbers_without_quotes_are_quantities_too(number: float, milli: int | None) -> None:
    if milli is None:
        assert nanos(number) == 10**31
    else:
        assert milli_value(number) == milli


def test_a_binary_quantity_stops_at_64_bits_and_a_decimal_one_does_not() -> None:
    assert value("8Ei") == MAX_INT64
    assert value("100Ei") == MAX_INT64
    assert nanos("18446744073709551616") == 2**64 * 10**9


@pytest.mark.parametrize("text", ["9223372036854775808", "10E", "1e19", "1e100000000", "-10E"])
def test_what_does_not_fit_in_64_bits_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="too large"):
        value(text)


def test_a_limit_that_does_not_fit_is_no_limit() -> None:
    assert saturated_milli_value("8Ei") == MAX_INT64
    assert saturated_milli_value("1Pi") == 2**50 * 1000


@pytest.mark.parametrize(
    "text",
    [
        "", " 1", "1 ", "1 Gi", "a", "1x", "1i", "1.1.1", "1+1", "--1", "1mi", "0.1mi", "1KI",
        "1ki", "1e", "1e1.5", "1e-", "1Ee3", "3.01i", "m", "Ki", ".", "+", "-", "0x10", "1_000",
        "１", "NaN", "inf", "1" * 300,
    ],
)  # fmt: skip
def test_what_is_not_a_quantity_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="is not a quantity"):
        nanos(text)


def test_a_boolean_is_not_a_quantity() -> None:
    with pytest.raises(FieldError, match="is not a quantity"):
        nanos(True)


numbers = st.from_regex(r"[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)


@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_every_suffix_multiplies(number: str, suffix: str) -> None:
    exact = Fraction(number.rstrip(".")) * SUFFIXES[suffix]
    billionths = away_from_zero(exact * 10**9)
    if suffix.endswith("i"):
        billionths = max(-MAX_INT64 * 10**9, min(MAX_INT64 * 10**9, billionths))
    assert nanos(number + suffix) == billionths
    assert saturated_milli_value(number + suffix) == max(
        -MAX_INT64 - 1, min(MAX_INT64, away_from_zero(Fraction(billionths, 10**6)))
    )


@given(numbers, st.integers(-30, 30), st.sampled_from("eE"))
def test_every_exponent_multiplies(number: str, exponent: int, letter: str) -> None:
    exact = Fraction(number.rstrip(".")) * Fraction(10) ** exponent
    assert nanos(f"{number}{letter}{exponent}") == away_from_zero(exact * 10**9)


@given(st.integers(0, MAX_INT64 // 1000))
def test_integers_are_themselves(number: int) -> None:
    assert value(str(number)) == number
    assert milli_value(str(number)) == number * 1000
    assert milli_value(f"{number}m") == number


@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_is_refused(text: str) -> None:
    with suppress(FieldError):
        nanos(text)
