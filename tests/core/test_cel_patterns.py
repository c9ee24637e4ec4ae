"""Patterns of ``matches`` in CEL expressions, compared with those of Python."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.cel import CelError, compiled
from pumice.core.cel.functions import _pattern as pattern

SINGLE = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "\\d",
        "\\w",
        "\\S",
        "[ab]",
        "[^a]",
        "[a-c1]",
        "\\.",
        "^",
        "$",
        "\\b",
        "-",
        "[-a]",
    ]
)
REPEAT = st.sampled_from(["", "", "*", "+", "?", "*?", "{2}", "{1,}", "{0,2}", "{1,3}?"])


def _grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.lists(parts, min_size=1, max_size=3).map("".join)
    grouped = st.tuples(joined, joined, REPEAT).map(lambda t: f"({t[0]}|{t[1]}){t[2]}")
    return grouped | joined.map(lambda text: f"(?:{text})")


PATTERN = st.lists(
    st.recursive(
        st.tuples(SINGLE, REPEAT).map(lambda t: t[0] if t[0] in "^$\\b" else "".join(t)),
        _grown,
        max_leaves=4,
    ),
    max_size=3,
).map("".join)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(PATTERN, st.text("abc1.- \n", max_size=6))
def test_patterns_match_as_in_python(text: str, where: str) -> None:
    # In RE2 the end is the very end.
    python = re.compile(text.replace("$", "\\Z"), re.ASCII)
    assert pattern(text).is_in(where) == (python.search(where) is not None)


@pytest.mark.parametrize(
    ("text", "where", "is_in"),
    [
        ("", "", True),
        ("A100", "NVIDIA-A100-80GB", True),
        ("^A100", "NVIDIA-A100-80GB", False),
        ("(A|H)100-\\d+GB$", "NVIDIA-H100-80GB", True),
        ("^[[:alpha:]]+$", "abcX", True),
        ("[[:^digit:]]", "123", False),
        ("[]x]", "]", True),
        ("a{,2}", "a{,2}", True),
        ("x{", "x{", True),
        ("(?:ab)*c", "ababc", True),
        ("é", "café", True),
        ("^[^é]{3}é$", "café", True),
        ("[à-ü]$", "café", True),
        ("[[:^alpha:]]", "é", True),
        ("^[[:punct:][:space:]]+$", "[-] ~", True),
        ("[:alpha:]", "b", False),
        ("(?i)a100\\z", "NVIDIA-A100", True),
        ("(?P<model>h|A)100", "A100", True),
        (".", "\n", False),
        ("(?s).", "\n", True),
        ("\\x", "x", None),
    ],
)
def test_what_matches(text: str, where: str, is_in: bool | None) -> None:
    if is_in is None:
        with pytest.raises(CelError):
            pattern(text)
    else:
        assert pattern(text).is_in(where) is is_in


@pytest.mark.parametrize(
    "text",
    [
        *("(", ")", "a)", "*", "a**", "[a", "[b-a]", "a{1001}", "a{2,1}", "(?m)a", "(?=a)b"),
        *("\\1", "\\pL", "[[:none:]]", "a\\", "((a{100}){100}){100}", "(" * 200 + ")" * 200),
    ],
)  # fmt: skip
def test_patterns_that_cannot_be_used_are_told(text: str) -> None:
    with pytest.raises(CelError, match="cannot be used"):
        pattern(text)


def test_no_pattern_takes_long() -> None:
    """These take a time that grows exponentially where one way after the other is tried."""
    for text in ("(a*)*b", "(a|aa)+$", "(((a+)+)+)+b"):
        assert not pattern(text).is_in("a" * 200 + "c")


def test_both_forms_of_the_call() -> None:
    for text in ('device.model.matches("^a.*0$")', 'matches(device.model, "^a.*0$")'):
        found = compiled(text.replace("device.model", '"a100"'))
        assert not isinstance(found, str)
        assert found.holds({})
