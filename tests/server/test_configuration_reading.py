"""From the text of a configuration to the engine: problems and warnings keep their lines."""

from __future__ import annotations

import pytest

from pumice.core import kubebatch
from pumice.core.configuration import DEFAULT_CONFIGURATION
from pumice.core.registry import Registry
from pumice.server.configuration import ConfigurationRefusedError, read
from pumice.v1 import configuration_pb2

CONF = """\
actions: "enqueue, allocate"
percentageNodesToFind: 50
tiers:
- plugins:
  - name: gang
  - name: binpack
    arguments:
      binpack.weight: -1
"""


def conf(text: str, *compat: str) -> configuration_pb2.Configuration:
    return configuration_pb2.Configuration(scheduler_conf=text, compat=compat)


def test_warnings_are_told_with_their_lines_and_the_configuration_is_used() -> None:
    effective = read(conf(CONF), Registry())
    assert effective.scheduler.actions == ("enqueue", "allocate")
    assert [(w.line, w.path, w.warning) for w in effective.warnings] == [
        (2, "percentageNodesToFind", True),
        (8, "tiers[0].plugins[1].arguments.binpack.weight", True),
    ]


def test_problems_and_warnings_are_told_together() -> None:
    with pytest.raises(ConfigurationRefusedError) as refused:
        read(conf(CONF.replace("name: gang", "name: gnag")), Registry())
    told = [(p.line, p.suggestion, p.warning) for p in refused.value.problem_messages]
    assert told == [(5, "gang", False), (2, "", True), (8, "", True)]


def test_the_switch_chooses_the_reader() -> None:
    flat = "actions: allocate\nplugins: gang\nplugin.gang.jobready: 'true'\n"
    effective = read(conf(flat, "kube-batch"), Registry())
    assert effective.scheduler.tiers[0][0].enabled("enableJobReady")
    with pytest.raises(ConfigurationRefusedError, match="compat switch kube-batch"):
        read(conf(flat), Registry())


def test_without_a_text_each_world_has_its_default() -> None:
    assert read(conf(""), Registry()).scheduler == DEFAULT_CONFIGURATION
    assert read(conf("", "kube-batch"), Registry()).scheduler == kubebatch.DEFAULT_CONFIGURATION


def test_an_unknown_switch_is_a_problem() -> None:
    with pytest.raises(ConfigurationRefusedError, match="unknown switch 'kubebatch'"):
        read(conf("", "kubebatch"), Registry())


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (CONF + "tiers: []\n", 9, "the key 'tiers' occurs twice, first on line 3"),
        (
            CONF.replace("  - name: binpack", "    name: priority\n  - name: binpack"),
            6,
            "the key 'name' occurs twice, first on line 5",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [], plugins: []}]",
            2,
            "the key 'plugins' occurs twice",
        ),
    ],
)
def test_a_key_that_is_there_twice_is_a_problem_with_its_line(
    text: str, line: int, problem: str
) -> None:
    with pytest.raises(ConfigurationRefusedError) as refused:
        read(conf(text), Registry())
    (told,) = refused.value.problem_messages
    assert told.line == line
    assert problem in told.problem


def test_equal_keys_of_different_mappings_are_fine() -> None:
    assert len(read(conf(CONF), Registry()).scheduler.tiers[0]) == 2


def test_ignored_provisioners_are_added_to_those_that_always_are() -> None:
    local = "kubernetes.io/no-provisioner"
    always = ("rancher.io/local-path", "hostpath.csi.k8s.io")
    assert read(conf(""), Registry()).settings.ignored_provisioners == always
    given = configuration_pb2.Configuration(ignored_provisioners=[local, always[0]])
    effective = read(given, Registry())
    assert effective.settings.ignored_provisioners == (local, *always)


def test_a_device_configuration_is_part_of_the_configuration() -> None:
    plain, message = read(conf(CONF), Registry()), conf(CONF)
    message.device_config = "nvidia: {gpuMemoryFactor: 2}"
    effective = read(message, Registry())
    assert effective.scheduler.device_config == '{"nvidia": {"gpuMemoryFactor": 2}}'
    assert effective.hash != plain.hash
    assert effective.scheduler.digest != plain.scheduler.digest
    assert effective.warnings == plain.warnings


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("nvidia: {", 1, ""),
        ("- a", 0, "is invalid"),
        ("vnpus: [{}]", 0, "lacks the key"),
        ("nvidia: {gpuMemoryFactor: x}", 0, "is invalid"),
    ],
)
def test_a_device_configuration_that_cannot_be_used_is_a_problem(
    text: str, line: int, problem: str
) -> None:
    message = conf(CONF)
    message.device_config = text
    with pytest.raises(ConfigurationRefusedError) as refused:
        read(message, Registry())
    (told,) = (p for p in refused.value.problem_messages if not p.warning)
    assert (told.path, told.line) == ("device_config", line)
    assert problem in told.problem
