"""Durations of what-if runs are those that were recorded."""

from __future__ import annotations

from pumice.recordings.durations import DurationEstimates
from pumice.recordings.history import History
from pumice.recordings.pod_records import BY_EVICTION, BY_USER, PodRecord
from pumice.v1.pod_pb2 import Pod


def test_a_pod_whose_termination_and_deletion_came_as_one_has_no_grace() -> None:
    evicted = PodRecord("a", Pod(), 0, evicted_ns=1, terminating_ns=2, gone_ns=9)
    evicted.ended_by = BY_EVICTION
    deleted = PodRecord("b", Pod(), 0, gone_ns=5, ended_by=BY_USER)
    estimates = DurationEstimates(History(pods={"a": evicted, "b": deleted}))
    assert estimates.grace_ns(evicted) == 7
    assert estimates.grace_ns(deleted) == 0
    assert estimates.grace_ns(PodRecord("c", Pod(), 0)) == 7
