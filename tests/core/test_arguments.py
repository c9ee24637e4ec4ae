"""Arguments of plugins: what the reader accepts, and what a plugin gets."""

from __future__ import annotations

import pytest

from pumice.core.configuration import Arguments, boolean, by_name, integer, names
from tests.core.test_configuration import Packer, problems, read, warnings, with_argument


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("weight: 3", 3),
        ("factor: 1", 1),
        ("factor: 1.5", 1.5),
        ("fast: yes", True),
        ("fast: 'T'", True),
        ("fast: '0'", False),
        ("fast: n", False),
        ("mode: pack", "pack"),
        ("patience: 1h2m3s", "1h2m3s"),
        ("table: {a: 1}", {"a": 1}),
        ("rows: [{a: 1}]", [{"a": 1}]),
        ("words: [a]", ["a"]),
        ("resources.nvidia.com/gpu: 4", 4),
    ],
)
def test_arguments_are_of_their_types(argument: str, value: object) -> None:
    assert read(with_argument(argument)).tiers[0][0].arguments == Arguments(
        {argument.split(":", maxsplit=1)[0]: value}
    )


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("weight: '3'", "must be a whole number, is '3'"),
        ("weight: 3.0", "must be a whole number, is 3.0"),
        ("weight: true", "must be a whole number, is True"),
        ("weight: 9223372036854775808", "must be a whole number"),
        ("factor: '1.5'", "must be a number, is '1.5'"),
        ("factor: .nan", "must be a number"),
        ("factor: .inf", "must be a number"),
        ("fast: 1", "must be true or false, is 1"),
        ("fast: maybe", "must be true or false, is 'maybe'"),
        ("mode: 7", "must be a text, is 7"),
        ("patience: 60", "must be a duration such as 1h2m3s, is 60"),
        ("patience: 5 minutes", "must be a duration such as 1h2m3s"),
        ("table: [1]", "must be a mapping"),
        ("table: {a: b}", "table.a: must be a whole number, is 'b'"),
        ("rows: {a: 1}", "must be a list"),
        ("rows: [1]", "rows[0]: must be a mapping of arguments"),
        ("words: [1]", "must be a list of texts"),
        ("wieght: 3", "unknown argument 'wieght'; did you mean 'weight'?"),
        ("resources.: 3", "unknown argument 'resources.'"),
        ("factor: 0.5", "must be 1 or more, is 0.5; Volcano would use 1.2 instead"),
        ("factor: 4", "must be 3 or less, is 4"),
        ("patience: 0s", "must be above 0, is '0s'"),
        ("patience: -5s", "must be above 0, is '-5s'"),
        ("mode: random", "must be one of spread, pack, is 'random'"),
        ("resources.cpu: -1", "must be 0 or more, is -1"),
    ],
)
def test_a_value_that_volcano_would_replace_is_a_problem(argument: str, problem: str) -> None:
    assert problem in problems(with_argument(argument))[0]


def test_a_value_that_volcano_uses_to_a_surprising_effect_is_a_warning() -> None:
    text = with_argument("weight: -1")
    assert Packer(read(text).tiers[0][0].arguments).weight == -1
    assert warnings(text) == [
        "tiers[0].plugins[0].arguments.weight: should be 0 or more, is -1; scores turn round"
    ]


def test_durations_are_read_in_nanoseconds() -> None:
    arguments = read(with_argument("patience: 1m30s")).tiers[0][0].arguments
    assert Packer(arguments).patience == 90 * 10**9


def test_arguments_that_are_not_given_have_their_declared_defaults() -> None:
    arguments = Packer()
    assert (arguments.weight, arguments.factor, arguments.fast, arguments.mode) == (
        1,
        1.2,
        False,
        "pack",
    )
    assert arguments.patience == 60 * 10**9
    assert (arguments.table.of["any"], arguments.rows, arguments.words) == (7, (), ())
    assert (arguments.resources["any"], dict(arguments.resources)) == (3, {})
    assert "weight" not in arguments


def test_members_and_names_are_read_where_they_are_declared() -> None:
    arguments = Packer({"table": {"a": 1}, "rows": [{"b": 2}, {}], "resources.cpu": 9})
    assert (arguments.table.of["a"], arguments.table.of["b"]) == (1, 7)
    assert [row.of["b"] for row in arguments.rows] == [2, 7]
    assert arguments.resources == {"cpu": 9}


def test_an_argument_is_declared_once_by_class() -> None:
    assert Packer.find("resources.cpu") is Packer.resources
    assert Packer.find("old.thing") is Packer.old
    assert Packer.find("mode") is Packer.mode
    assert Packer.find("resources.") is None


def test_a_subclass_declares_again_what_it_changes() -> None:
    class Faster(Packer):
        fast = boolean("fast", "a switch", default=True)

    assert Faster().fast
    assert Faster().weight == Packer().weight
    assert len(Faster.declared) == len(Packer.declared)


def test_an_argument_that_is_declared_twice_is_an_error() -> None:
    with pytest.raises(TypeError, match="Twice declares the argument 'fast' twice"):

        class Twice(Arguments):
            one = boolean("fast", "a switch", default=True)
            two = boolean("fast", "a switch", default=False)


def test_an_argument_cannot_have_the_name_of_a_method() -> None:
    with pytest.raises(TypeError, match=r"Bad.items: Arguments uses this name itself"):

        class Bad(Arguments):
            items = boolean("fast", "a switch", default=True)  # type: ignore[assignment]


def test_names_and_texts_that_are_odd_are_read_as_they_are() -> None:
    class Odd(Arguments):
        listed = names("listed", "names")
        any_name = by_name(integer("", 1, "a number"))

    assert Odd({"listed": " a,, b ,a"}).listed == ("a", "b", "a")
    assert Odd({"listed": ""}).listed == ()
    found = Odd.find("ü 1")
    assert found is not None
    assert found.shown_name == "<name>"
    assert Odd.find("") is None
