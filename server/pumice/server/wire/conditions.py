"""Converts the status of conditions."""

from __future__ import annotations

from pumice.v1 import condition_pb2

# Kubernetes' words.
STATUSES = {
    condition_pb2.CONDITION_STATUS_UNSPECIFIED: "",
    condition_pb2.CONDITION_STATUS_TRUE: "True",
    condition_pb2.CONDITION_STATUS_FALSE: "False",
    condition_pb2.CONDITION_STATUS_UNKNOWN: "Unknown",
}
STATUS_NUMBERS = {word: number for number, word in STATUSES.items()}
