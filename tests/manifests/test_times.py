"""Times are RFC 3339 and exact to the nanosecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.manifests.errors import FieldError
from pumice.manifests.times import timestamp_ns


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:08Z", 1767225608 * 10**9),
        ("2026-01-01T00:00:08.5Z", 1767225608 * 10**9 + 500_000_000),
        ("2026-01-01T00:00:08.123456789Z", 1767225608 * 10**9 + 123_456_789),
        ("2026-01-01T01:00:08+01:00", 1767225608 * 10**9),
        ("2025-12-31T18:30:08-05:30", 1767225608 * 10**9),
        ("0001-01-01T00:00:00Z", 0),
        ("0001-01-01T00:00:01Z", -(2**63)),
        ("1600-01-01T00:00:00Z", -(2**63)),
        ("9999-12-31T23:59:59.999999999+14:00", 2**63 - 1),
    ],
)
def test_times(text: str, nanoseconds: int) -> None:
    assert timestamp_ns(text, "f") == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["now", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "20260101T000000Z",
     "2026-02-30T00:00:00Z", "2026-01-01T25:00:00Z", "0000-01-01T00:00:00Z"],
)  # fmt: skip
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match=r"metadata\.creationTimestamp: .* is not a time"):
        timestamp_ns(text, "metadata.creationTimestamp")


@given(st.datetimes(datetime(1900, 1, 1), datetime(2262, 1, 1), timezones=st.just(UTC)))
def test_every_time_comes_back(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    text = moment.isoformat().replace("+00:00", "Z")
    assert timestamp_ns(text, "f") == expected
