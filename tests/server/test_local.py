"""A core in process."""

from typing import Any

import pytest

from pumice.server.local import ConfigurationRefusedError, LocalCore
from pumice.v1 import configuration_pb2, decision_pb2, object_pb2
from tests.server.running import START, gang, node, pod, queue

SECOND = 1_000_000_000


def test_objects_go_in_and_decisions_come_out() -> None:
    core = LocalCore()
    assert core.upsert(queue(), node("n1"), *gang("job", 2)) == []
    session = core.session(START)
    assert [d.bind.node for d in session.decisions] == ["n1", "n1"]
    assert [g.size for g in session.gangs] == [2]
    assert core.session(START + 1).decisions == []


def test_a_bad_object_is_returned() -> None:
    core = LocalCore()
    (rejected,) = core.upsert(pod("job", 0, cpu=-1))
    assert rejected.uid == "pod-job-0"


def test_what_is_deleted_is_gone() -> None:
    core = LocalCore()
    core.upsert(queue(), node("n1"), *gang("job", 1))
    core.delete(object_pb2.ObjectRef(kind=object_pb2.KIND_NODE, uid="node-n1"))
    session = core.session(START)
    assert session.decisions == []
    assert [wait.job for wait in session.waits] == ["team/job"]


def test_outcomes_free_what_was_assumed() -> None:
    core = LocalCore()
    core.upsert(queue(), node("n1"), *gang("job", 1))
    (made,) = core.session(START).decisions
    failed = decision_pb2.OUTCOME_CODE_FAILED
    core.report(decision_pb2.Outcome(decision_id=made.id, code=failed))
    assert len(core.session(START + SECOND).decisions) == 1


def test_cool_downs_are_times_to_wake() -> None:
    core = LocalCore()
    core.upsert(queue(), node("n1"), *gang("job", 1))
    for second in range(2):
        (made,) = core.session(START + second).decisions
        failed = decision_pb2.OUTCOME_CODE_FAILED
        core.report(decision_pb2.Outcome(decision_id=made.id, code=failed), now_ns=START + 10)
    assert core.session(START + 20).decisions == []
    assert core.next_wake(START + 20) == START + 10 + SECOND
    assert len(core.session(START + 10 + SECOND).decisions) == 1


def test_a_bad_configuration_is_refused() -> None:
    bad = configuration_pb2.Configuration(scheduler_conf="actions: [")
    with pytest.raises(ConfigurationRefusedError) as caught:
        LocalCore(bad)
    assert caught.value.problem_messages[0].line == 1
    core = LocalCore()
    result = core.configure(bad)
    assert not result.accepted
    assert result.effective_config_hash


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x 1\nb: *x\n", "alias"),
        ("[" * 60 + "]" * 60, "nested"),
        ("actions: \x00", "YAML"),
        ("#" * (2**20 + 1), "bytes"),
    ],
)
def test_hostile_texts_are_refused(text: str, problem: str) -> None:
    result = LocalCore().configure(configuration_pb2.Configuration(scheduler_conf=text))
    assert not result.accepted
    assert problem in result.problems[0].problem


def test_the_hash_is_of_the_meaning() -> None:
    core = LocalCore()
    text = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'

    def hash_of(conf: str, **fields: Any) -> str:
        held = configuration_pb2.Configuration(scheduler_conf=conf, **fields)
        return core.configure(held).effective_config_hash

    assert hash_of(text) == hash_of("# a note\n" + text)
    assert hash_of(text) != hash_of(text, default_queue="other")
    assert hash_of(text) == hash_of(text, default_queue="default")
