"""Results: frozen values with one shape, and enums that match those of the protocol."""

import dataclasses
import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

import pumice.client
from pumice.client import (
    Bind,
    Job,
    PauseReason,
    PodGroupPhase,
    QueueState,
    ReasonCode,
    ScheduleResult,
    Stage,
    StageResult,
)
from pumice.client.enums import member_of, number_of, phase_named
from pumice.client.values import Value
from pumice.v1 import core_pb2, explanation_pb2, group_pb2, reason_pb2
from pumice.v1.inspection_service_pb2 import JobInfo
from pumice.v1.scheduling_service_pb2 import ScheduleResponse

ENUMS = [
    (PodGroupPhase, group_pb2.PodGroupPhase.DESCRIPTOR),
    (PauseReason, core_pb2.PauseReason.DESCRIPTOR),
    (QueueState, group_pb2.QueueState.DESCRIPTOR),
    (ReasonCode, reason_pb2.ReasonCode.DESCRIPTOR),
    (Stage, explanation_pb2.Stage.DESCRIPTOR),
    (StageResult, explanation_pb2.StageResult.DESCRIPTOR),
]


@pytest.mark.parametrize(("words", "protocol"), ENUMS)
def test_an_enum_has_a_member_for_every_value_of_the_protocol(
    words: type[StrEnum], protocol: EnumDescriptor
) -> None:
    numbers = list(protocol.values_by_number)
    assert [
        number_of(member_of(words, protocol, number), protocol) for number in numbers
    ] == numbers
    assert len(words) == len(numbers)
    assert member_of(words, protocol, 999).name == "UNSPECIFIED"


def test_all_exported_results_are_frozen_values() -> None:
    exported: list[Any] = [getattr(pumice.client, name) for name in pumice.client.__all__]
    results: list[Any] = [each for each in exported if dataclasses.is_dataclass(each)]
    assert len(results) > 20
    for result in results:
        assert result.__dataclass_params__.frozen
        assert issubclass(result, Value) or result is pumice.client.ClientSettings


def test_a_value_becomes_json() -> None:
    message = JobInfo(
        namespace="team",
        name="train",
        phase=group_pb2.POD_GROUP_PHASE_INQUEUE,
        creation_time=Timestamp(seconds=1_800_000_000),
        allocated={"memory": 2, "cpu": 1},
        reasons=[
            reason_pb2.Reason(author="gang", code=reason_pb2.REASON_CODE_GANG_SHORT, have=1, need=2)
        ],
    )
    job = Job.from_proto(message)
    assert job.phase is PodGroupPhase.INQUEUE
    assert job.creation_time == datetime(2027, 1, 15, 8, tzinfo=UTC)
    shown = json.loads(json.dumps(job.to_dict()))
    assert shown["phase"] == "Inqueue"
    assert shown["creation_time"] == "2027-01-15T08:00:00+00:00"
    assert list(shown["allocated"]) == ["cpu", "memory"]
    assert shown["reasons"][0]["code"] == "gang short"
    assert shown["reasons"][0]["text"] == "1/2 tasks fit"
    assert set(shown) == {field.name for field in dataclasses.fields(Job)}


def test_values_within_values_become_json_too() -> None:
    result = ScheduleResult.from_proto(ScheduleResponse())
    changed = dataclasses.replace(result, binds=(Bind("team/a", "n1", "team/job"),))
    assert changed.to_dict()["binds"] == [{"pod": "team/a", "node": "n1", "job": "team/job"}]


def test_an_unknown_phase_is_refused_with_the_allowed_ones() -> None:
    assert phase_named("inqueue") is PodGroupPhase.INQUEUE
    with pytest.raises(ValueError, match="unknown phase 'asleep'; allowed: Pending, Inqueue"):
        phase_named("asleep")
