"""YAML of plain values: everything else is refused, quickly and with its line."""

import time
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pumice.core.registry import Registry
from pumice.server import plain_yaml
from pumice.server.configuration import ConfigurationRefusedError, read
from pumice.server.configuration_check import check
from pumice.server.plain_yaml import YamlTextError, parse
from pumice.v1 import configuration_pb2
from tests.server.running import RunningCore, configuration, gang, node, queue

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [x, 'y', \"z\"]\nc: {d: true, e: no}\n",
        "a: -7\nb: +3\nc: 0x1F\nd: 0b11\ne: 017\nf: 1_000\ng: 0\n",
        "a: 1.5\nb: .5\nc: 1.5e+3\nd: -.inf\n",
        "a: ~\nb: null\nc:\nd: ''\n",
        "a: |\n  1\n  2\nb: >\n  x\n  y\n",
        "- a\n- - b\n  - c: d\n",
        "plain",
        "",
        "'1': one\n",
        "a: 1.2.3\nb: 10Gi\nc: -x\nd: 08\n",
    ],
)
def test_plain_values_are_read_as_any_other_reader_does(text: str) -> None:
    assert parse(text).data == yaml.safe_load(text)


def test_base_60_and_timestamps_are_texts() -> None:
    assert parse("a: 1:30\nb: 2001-01-01\nc: 1:1.5\n").data == {
        "a": "1:30",
        "b": "2001-01-01",
        "c": "1:1.5",
    }


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("actions: !!bool maybe", 1, "tags (tag:yaml.org,2002:bool) are not allowed"),
        ("a: 1\nb: !!int ''", 2, "tags"),
        ("a: !!timestamp x", 1, "tags"),
        ("a: !!python/object:os.system x", 1, "tags"),
        ("!!set {a, b}", 1, "tags"),
        ("a: &x 1\nb: *x", 2, "aliases (*name) are not allowed"),
        ("%YAML 1.1\n--- \na: 1", 1, "lines that begin with %) are not allowed"),
        ("a: 1\n---\nb: 2", 2, "a second document begins"),
        ("a: 1\n? [b]\n: c", 2, "a key must be a plain value"),
        ("a: 1\na: 2", 2, "the key 'a' occurs twice, first on line 1"),
        ("a: " + "1" * 65, 1, "a number with more than 64 characters"),
        ("a: [", 1, "invalid YAML"),
        ("a: \0", 0, "invalid YAML"),
        ("- " * 41, 1, "nested more than 40 levels"),
        ("- 1\n" * 5_000, 5_000, "more than 5000 keys and values"),
        ("x" * (MIB + 1), 0, "has 1048577 bytes"),
    ],
)
def test_everything_else_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(YamlTextError) as refused:
        parse(text)
    assert problem in refused.value.problem
    assert refused.value.line == line


def test_the_limits_can_be_reached() -> None:
    deepest = "[" * plain_yaml.MAX_DEPTH + "]" * plain_yaml.MAX_DEPTH
    parse(deepest)
    parse("- 1\n" * (plain_yaml.MAX_NODES - 1))
    parse("a: " + "1" * plain_yaml.MAX_NUMBER_LENGTH)
    parse("#" * plain_yaml.MAX_TEXT_BYTES)


@given(st.text(alphabet="ab1:.- \n[]{}!&*%#'\"|>?,~=<0x_e+@`\t\0\u2028", max_size=60))
def test_no_text_raises_anything_but_its_own_error(text: str) -> None:
    with suppress(YamlTextError):
        parse(text)
    with suppress(ConfigurationRefusedError):
        read(configuration_pb2.Configuration(scheduler_conf=text), Registry())


_PLUGINS = "actions: allocate\ntiers:\n- plugins:\n"
HOSTILE = {
    "base 60": "a: " + ":".join(["1"] * (MIB // 2 - 2)),
    "many items": "- a\n" * (MIB // 4),
    "many keys": "".join(f"k{number}: 1\n" for number in range(80_000)),
    "deep lists": "[" * MIB,
    "deep blocks": "- " * (MIB // 2),
    "one long number": "a: " + "1" * (MIB - 3),
    "one long text": "a: " + "x" * (MIB - 3),
    "one long plugin": f"{_PLUGINS}  - name: " + "gang" * (MIB // 4 - 100),
    "unknown plugins": _PLUGINS + "".join(f"  - name: gnag{n}\n" for n in range(2_400)),
    "unknown arguments": _PLUGINS
    + "  - name: binpack\n    arguments:\n"
    + "".join(f"      binpack.{'weight' * 30}{n}: 1\n" for n in range(2_400)),
    "many actions": 'actions: "' + "enqueu," * (MIB // 7 - 10) + '"',
    "tag directives": "".join(f"%TAG !a{n}! x\n" for n in range(60_000)),
    "escapes": 'a: "' + "\\x41" * (MIB // 4 - 10) + '"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_any_megabyte_is_answered_or_refused_within_a_second(name: str) -> None:
    text = HOSTILE[name]
    assert len(text) <= MIB
    started = time.process_time()
    answer = check(configuration_pb2.Configuration(scheduler_conf=text), Registry())
    assert time.process_time() - started < 1.0
    assert not answer.valid
    assert answer.ByteSize() < 200_000


@pytest.mark.parametrize("value", ["!!bool maybe", "!!int ''", "!!timestamp x", "!!float 'x'"])
async def test_a_configuration_with_a_tag_keeps_state_and_last_good_one(
    core: RunningCore, value: str
) -> None:
    adapter = await core.served([queue(), node("n1")])
    good = (await adapter.configure(configuration('actions: "allocate"\ntiers: []\n'))).seq
    result = await adapter.configure(configuration(f"actions: {value}\n"))
    assert not result.accepted
    assert "tags" in result.problems[0].problem
    assert good
    await adapter.tell(*gang("a", 2))
    core.clock.advance(1)
    assert len(await adapter.decisions()) == 2
    assert core.metric("pumice_state_lost_total") == 0
