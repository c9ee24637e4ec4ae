"""Every word of a scheduler configuration can be explained."""

from pumice.core.configuration import FLAG_DEFAULTS
from pumice.core.registry import Registry
from pumice.server.configuration_check import notes_of
from pumice.server.configuration_help import ACTIONS, FLAGS, PLUGINS

CATALOG = Registry().catalog()
CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
    enableJobOrder: true
- plugins:
  - name: binpack
    arguments:
      binpack.weight: 5
configurations:
- name: preempt
  arguments:
    minCandidateNodesAbsolute: 10
"""


def test_every_action_and_plugin_has_a_meaning() -> None:
    assert set(CATALOG.actions) - ACTIONS.keys() == set()
    assert set(CATALOG.plugins) - PLUGINS.keys() == set()


def test_every_flag_has_a_meaning() -> None:
    assert FLAG_DEFAULTS.keys() == FLAGS.keys()


def test_every_argument_has_a_meaning_or_says_why_it_has_no_effect() -> None:
    waiting = [*CATALOG.actions.values(), *CATALOG.plugins.values()]
    while waiting:
        for argument in waiting.pop().declared:
            assert bool(argument.meaning) != bool(argument.why_without_effect), argument.name
            waiting += [argument.members] if argument.members else []


def test_notes_follow_the_lines_of_the_file() -> None:
    notes = {note.path: (note.line, note.meaning) for note in notes_of(CONF, CATALOG)}
    assert [note.line for note in notes_of(CONF, CATALOG)] == sorted(
        note.line for note in notes_of(CONF, CATALOG)
    )
    assert notes["tiers[0]"][0] == 3
    assert notes["tiers[0].plugins[0].enablePreemptable"] == (
        5,
        "gang does not decide which pods preempt may evict",
    )
    assert notes["tiers[0].plugins[0].enableJobOrder"] == (
        6,
        "gang decides the order of jobs (the default)",
    )
    line, meaning = notes["tiers[1].plugins[0].arguments.binpack.weight"]
    assert (line, meaning.partition(":")[0]) == (10, "binpack.weight = 5")
    assert notes["configurations[0].arguments.minCandidateNodesAbsolute"][0] == 14


def test_an_empty_file_has_nothing_to_explain() -> None:
    assert notes_of(" \n", CATALOG) == []
