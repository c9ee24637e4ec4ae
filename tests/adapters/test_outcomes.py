"""Every row of the table from answers to outcomes."""

import pytest

from pumice.adapters.runtime.outcomes import OUTCOMES, gave_up, judge, judge_reading, target
from pumice.adapters.runtime.world import ApplyCode, ApplyResult, Reading
from pumice.v1.decision_pb2 import (
    OUTCOME_CODE_APPLIED,
    OUTCOME_CODE_CONFLICT,
    OUTCOME_CODE_FAILED,
    OUTCOME_CODE_GONE,
    OUTCOME_CODE_RETRYING,
    Decision,
    OutcomeCode,
)
from tests.adapters.fake_world import bind, evict, pod

ROWS = [
    (ApplyResult(ApplyCode.DONE), OUTCOME_CODE_APPLIED),
    (ApplyResult(ApplyCode.PLACED, node="n1"), OUTCOME_CODE_APPLIED),
    (ApplyResult(ApplyCode.PLACED, node="n2"), OUTCOME_CODE_CONFLICT),
    (ApplyResult(ApplyCode.NOT_FOUND), OUTCOME_CODE_GONE),
    (ApplyResult(ApplyCode.OTHER_UID), OUTCOME_CODE_GONE),
    (ApplyResult(ApplyCode.FORBIDDEN, "pods/binding"), OUTCOME_CODE_FAILED),
    (ApplyResult(ApplyCode.WITHHELD, "pods/binding"), OUTCOME_CODE_FAILED),
    (ApplyResult(ApplyCode.NOT_LEADING), OUTCOME_CODE_FAILED),
    (ApplyResult(ApplyCode.INVALID, "spec.nodeName"), OUTCOME_CODE_FAILED),
    (ApplyResult(ApplyCode.CONFLICT), OUTCOME_CODE_RETRYING),
    (ApplyResult(ApplyCode.THROTTLED), OUTCOME_CODE_RETRYING),
    (ApplyResult(ApplyCode.SERVER_ERROR), OUTCOME_CODE_RETRYING),
    (ApplyResult(ApplyCode.TIMED_OUT), OUTCOME_CODE_RETRYING),
    (ApplyResult(ApplyCode.WAITING), OUTCOME_CODE_RETRYING),
]


@pytest.mark.parametrize(("result", "code"), ROWS)
def test_an_answer_means_one_outcome(result: ApplyResult, code: OutcomeCode.ValueType) -> None:
    verdict = judge(bind("a"), result)
    assert verdict.code == code
    assert verdict.is_final == (code != OUTCOME_CODE_RETRYING)
    # What the world said is named.
    assert result.reason in verdict.reason


def test_every_answer_has_a_row() -> None:
    assert {row.code for row, _ in ROWS} == set(ApplyCode) == {*OUTCOMES, ApplyCode.PLACED}


READINGS = [
    (bind("a"), Reading(None), OUTCOME_CODE_GONE),
    (bind("a"), Reading(pod("a", uid="other")), OUTCOME_CODE_GONE),
    (bind("a"), Reading(pod("a")), None),
    (bind("a"), Reading(pod("a", node="n1"), "7"), OUTCOME_CODE_APPLIED),
    (bind("a"), Reading(pod("a", node="n2")), OUTCOME_CODE_CONFLICT),
    (evict("a"), Reading(None), OUTCOME_CODE_GONE),
    (evict("a"), Reading(pod("a", node="n1")), None),
]


@pytest.mark.parametrize(("decision", "reading", "code"), READINGS)
def test_a_pod_read_back_tells_what_became_of_a_call(
    decision: Decision, reading: Reading, code: OutcomeCode.ValueType | None
) -> None:
    verdict = judge_reading(decision, reading)
    assert (verdict and verdict.code) == code
    if verdict is not None:
        assert verdict.version == reading.version


def test_a_terminating_pod_read_back_was_evicted() -> None:
    found = pod("a", node="n1")
    found.pod.terminating = True
    verdict = judge_reading(evict("a"), Reading(found))
    assert verdict is not None
    assert verdict.code == OUTCOME_CODE_APPLIED


def test_giving_up_says_how_often_and_why() -> None:
    last = judge(bind("a"), ApplyResult(ApplyCode.SERVER_ERROR, "no quorum"))
    assert gave_up(last, 5).code == OUTCOME_CODE_FAILED
    assert gave_up(last, 5).reason == "gave up after 5 tries: server error: no quorum"


def test_an_unknown_order_has_no_target() -> None:
    assert target(Decision(id="d")) is None
