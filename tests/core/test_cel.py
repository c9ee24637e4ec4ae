"""CEL expressions of device selectors."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

from pumice.core.cel import MAX_LENGTH, CelError, Expression, MapValue, Quantity, Semver, compiled

DOMAIN = "gpu.example.com"
OWN = MapValue(
    {"model": "a100", "index": 1, "ecc": True, "driverVersion": Semver.parse("1.2.3-rc.1")}
)
DEVICE = MapValue(
    {
        "driver": DOMAIN,
        "attributes": MapValue({DOMAIN: OWN}, MapValue({})),
        "capacity": MapValue(
            {DOMAIN: MapValue({"memory": Quantity(Fraction(40 * 1024**3))})},
            MapValue({}),
        ),
    }
)
A = f'device.attributes["{DOMAIN}"]'
MEMORY = f'device.capacity["{DOMAIN}"].memory'


def holds(text: str) -> bool:
    return Expression(text).holds({"device": DEVICE})


@pytest.mark.parametrize(
    "text",
    [
        f'device.driver == "{DOMAIN}" && {A}.model == "a100"',
        f'{A}["model"] in ["a100", "h100"]',
        f'{MEMORY}.compareTo(quantity("40Gi")) == 0',
        f'{MEMORY}.isGreaterThan(quantity("39.5Gi")) && {MEMORY}.isLessThan(quantity("1e12"))',
        f'{A}.driverVersion.isLessThan(semver("1.2.3")) && {A}.driverVersion.major() == 1',
        f"has({A}.model) && !has({A}.nothing)",
        'has(device.attributes["other"].model) == false',
        f'"model" in {A} && !("x" in {A})',
        f"{A}.index + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 2 == -1",
        f"{A}.ecc ? true : {A}.nothing == 1",
        f'cel.bind(a, {A}, a.model.startsWith("a") && a.model.endsWith("0"))',
        f'{A}.model.contains("10") && {A}.model.size() == 4 && size([1, 2]) == 2',
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 1)",
        "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]",
        # A side that decides counts, even if the other one is an error.
        f"true || {A}.nothing == 1",
        f"{A}.nothing == 1 || true",
        f"!(false && {A}.nothing == 1)",
        '"a" < "b" && 1 < 2.5 && !(1 == "1") && 1 != 2',
        '"\\x41\\u0042\\n" == "AB\\n" && r"\\n" == "\\\\n"',
        'isQuantity("5Ki") && !isQuantity("5 Ki") && isSemver("1.0.0") && !isSemver("1.0")',
        "// a comment\n1 in [1]",
        "0x10 == 16 && 2u == 2",
        '"a,b".split(",")[1] == "b" && "Ab".lowerAscii() == "ab"',
    ],
)
def test_expressions_that_hold(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{A}.nothing == 1", "no such key: nothing"),
        ('device.attributes["other"].model == "x"', "no such key: model"),
        ("device.driver", "type string, not bool"),
        ("node.name == 1", "node is not known here"),
        ('device.driver.format("g.*")', "is not supported"),
        ("device.driver > 1", "string > int is not supported"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ('quantity("ten") == quantity("10")', "is not a quantity"),
        ("[1][3] == 1", "out of bounds"),
        ("1 && true", "is not true or false"),
        ("[1, 2].all(x, x / 0 > 1)", "division by zero"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(CelError, match=problem):
        holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "(true",
        "true)",
        "device.",
        'device["a"',
        '"open',
        "a ? b",
        "has(device)",
        "x.all(1, true)",
        "99999999999999999999 > 1",
        '"\\q" == ""',
        "@",
        "(" * 100 + "true" + ")" * 100,
        "true" + " && true" * MAX_LENGTH,
    ],
)
def test_what_cannot_be_read_is_told(text: str) -> None:
    found = compiled(text)
    assert isinstance(found, str)
    assert found


def test_macros_visit_a_limited_number_of_elements() -> None:
    numbers = "[" + ", ".join(map(str, range(200))) + "]"
    with pytest.raises(CelError, match="visits more than"):
        holds(f"{numbers}.all(x, {numbers}.all(y, x + y >= 0))")


def test_versions_are_ordered_as_semantic_versions() -> None:
    texts = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.1", "1.0.0", "1.0.10"]
    versions = [Semver.parse(text) for text in texts]
    assert all(left < right for left, right in pairwise(versions))
