"""Patterns of HyperNodes select what Python's would, in a time that no pattern can stretch."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.deltas import Upserted
from pumice.core.engine import Engine
from pumice.core.model.topology import HyperNode, HyperNodeMember
from pumice.patterns.automata import (
    MAX_PATTERN_GROUPS,
    MAX_PATTERN_LENGTH,
    MAX_PATTERN_REPEATS,
    MAX_PATTERN_STATES,
    MAX_PATTERN_TRANSITIONS,
    Pattern,
    PatternError,
)
from pumice.patterns.names import MAX_NAME_LENGTH, Names
from tests.core.builders import NOW_NS, fill, node

NAMES = ["a", "b", "ab", "aab", "a-b", "gpu-1", "gpu-12.rack", "GPU-1", "n_1", "aaaa", "x.y.z"]


NAMED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<(?=\w+>)", re.DOTALL)


def matching(pattern: str, names: list[str]) -> list[bool]:
    found: list[bool] = Names(names).matching(Pattern(pattern)).tolist()
    return found


def expected(pattern: str, names: list[str]) -> list[bool]:
    # In RE2 an open repeat is none, and the name of a group needs no P.
    python = NAMED.sub(lambda found: {"(?<": "(?P<"}.get(found[0], found[0]), pattern)
    python = python.replace("{,", r"\{,")
    return [re.search(python, name) is not None for name in names]


@pytest.mark.parametrize(
    "pattern",
    [
        "", "^", "$", "^$", "a", "^a", "a$", "^a+$", "(a|b)+$", "(a+)+$", "(a*)*b", "^(a|ab)(b|)$",
        "gpu-[0-9]+", r"^gpu-\d{1,2}$", r"\bgpu\b", r"\B1", r"1\b", "(?i)gpu", "(?i:g)pu", "[^a]$",
        "(?i)^[^g]", "^.*-.*$", ".*?b", "a{2,3}", "a{3,}", "^a{0,2}$", r"\.", r"[\w-]+\.rack", "()*",
        r"^\Sab", r"(?:^|-)\d", "(^|b)*a", "^^a", "a$$", "n_1|x.y", r"\Aab\Z", "[a-c-]{3}", "é", "[é-ü]",
        "^(gpu-1|gpu-12.rack)$", "a{,2}", "(a?){4}$", "((a|b)?){3}-", "(?:a{2}){2}", "x*y*z", "[^é]{9}",
    ],
)  # fmt: skip
def test_a_pattern_selects_what_pythons_would(pattern: str) -> None:
    assert matching(pattern, NAMES) == expected(pattern, NAMES)


ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\d", "^", "$", r"\b", r"\B", ""])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, st.lists(st.text("ab-1.", min_size=1, max_size=7), max_size=12))
def test_any_pattern_selects_what_pythons_would(pattern: str, names: list[str]) -> None:
    assert matching(pattern, names) == expected(pattern, names)


# Python warns of sets such as [[a], which it may read in another way one day.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@settings(max_examples=500, deadline=None)
@given(
    st.text(r"ab()[]{}*+?|^$\\.,-12:iPLua<>=!BdWsAZ#", max_size=14),
    st.lists(st.text("ab-1.", min_size=1, max_size=5), max_size=6),
)
def test_any_text_is_matched_like_pythons_or_refused(text: str, names: list[str]) -> None:
    try:
        found = matching(text, names)
    except PatternError:
        return
    except re.error:
        with pytest.raises((re.error, ValueError)):
            re.compile(text)
        return
    assert found == expected(text, names)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"\Qa-b\E", ["a-b"]),
        (r"^\Qx.y", ["x.y.z"]),
        (r"\Qa+\E", []),
        (r"^\Qa\E+$", ["a", "aaaa"]),
        (r"^(?<name>b)$", ["b"]),
        (r"^(?P<name>b)$", ["b"]),
        (r"^\x{62}\x62?$", ["b"]),
        (r"^[\x{62}-\x{63}]$", ["b"]),
        (r"^[[:lower:]]\z", ["a", "b"]),
        (r"\(?<a>", []),
        (r"[(?<a>]$", ["a", "aaaa"]),
    ],
)
def test_what_go_writes_in_another_way_than_python(pattern: str, names: list[str]) -> None:
    """The expected names are those that Go's regexp gives."""
    found = matching(pattern, NAMES)
    assert [name for name, is_found in zip(NAMES, found, strict=True) if is_found] == names


@pytest.mark.parametrize("text", ["n[", "(", "(?L)a", "(?au)a", "a{2,1}", "*", r"\\8"[1:]])
def test_a_pattern_that_is_none_is_an_error_of_one_type(text: str) -> None:
    with pytest.raises(re.error):
        Pattern(text)


def test_names_that_kubernetes_does_not_allow_are_not_selected() -> None:
    names = ["a" * MAX_NAME_LENGTH, "a" * (MAX_NAME_LENGTH + 1), "añ", "", "a"]
    assert matching("a*", names) == [True, False, False, False, True]
    assert matching("a", []) == []


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("a" * (MAX_PATTERN_LENGTH + 1), f"at most {MAX_PATTERN_LENGTH}"),
        ("(" * 400 + ")" * 400, f"more than {MAX_PATTERN_GROUPS} groups"),
        ("a{1001}", f"more than {MAX_PATTERN_REPEATS} times"),
        ("a{99999999999999}", f"more than {MAX_PATTERN_REPEATS} times"),
        ("((a{1000}){1000}){1000}", f"more than {MAX_PATTERN_STATES} states"),
        ("(((){1000}){1000}){1000}", f"more than {MAX_PATTERN_STATES} states"),
        ("(a?){400}", f"more than {MAX_PATTERN_TRANSITIONS} transitions"),
        ("(" + "|" * 900 + "){900}", f"more than {MAX_PATTERN_TRANSITIONS} transitions"),
        (r"(a)\1", "backreference"),
        ("n[[:none:]]", "unknown class"),
        (r"\x{110000}", "invalid character code"),
        ("(?m)^n", "flag m"),
        ("(?=a)b", "lookaround"),
        ("(?<!a)b", "lookaround"),
        ("a++", "possessive"),
        ("(?>a)", "possessive"),
        ("(a)?(?(1)b|c)", "backreference"),
    ],
)
def test_a_pattern_beyond_the_limits_is_refused(pattern: str, allowed: str) -> None:
    with pytest.raises(PatternError, match=allowed):
        Pattern(pattern)


HOSTILE = [
    "(a+)+$", "(a|a)*b", "(a|aa)+$", "a*a*a*a*a*a*b", "(.*)(.*)(.*)(.*)[^a]", "(a*)*(a*)*(a*)*b",
    "(a|b)*a(a|b){400}b", "(a?){60}a{60}b", "((a+)+)+b", r"(\ba*\B)*b", "(a|a|[ab]|[ac]|[ad]|.){25}b",
    "(" + "|".join(f"[a{chr(98 + i % 20)}]" + "a?" * (i % 3) for i in range(25)) + ")*b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_pattern_is_matched_with_the_names_of_a_large_cluster(pattern: str) -> None:
    """A backtracking matcher would not return within the time limit of a test."""
    names = ["a" * (MAX_NAME_LENGTH - 4) + f"{number:04}" for number in range(5_000)]
    assert matching(pattern, names) == [pattern.endswith("[^a]")] * len(names)


def hyper_node(*patterns: str) -> HyperNode:
    return HyperNode(
        "uid-h", "h", 1, members=tuple(HyperNodeMember(name_pattern=p) for p in patterns)
    )


def test_a_hyper_node_with_a_refused_pattern_keeps_its_last_version() -> None:
    engine = fill(Engine(), node("n1"), node("n2"), hyper_node("1$"))
    (rejection,) = engine.apply([Upserted(hyper_node("2$", r"(n)\1"))])
    assert str(rejection.error).startswith(
        "HyperNode h: members[1].name_pattern: has a lookaround, a backreference"
    )
    engine.schedule(NOW_NS)
    assert engine.cache.hyper_node_tree.rows_of("h").tolist() == [True, False]


def test_a_pattern_that_is_none_selects_nothing_and_the_others_count() -> None:
    engine = fill(Engine(), node("n1"), node("n2"))
    assert engine.apply([Upserted(hyper_node("n[", "2$"))]) == ()
    engine.schedule(NOW_NS)
    assert engine.cache.hyper_node_tree.rows_of("h").tolist() == [False, True]
