"""Conditions as Kubernetes writes them."""

from __future__ import annotations

from typing import Final

from pumice.v1 import condition_pb2

# A status that is none of these has no meaning, and stays unspecified.
STATUSES: Final = {
    "True": condition_pb2.CONDITION_STATUS_TRUE,
    "False": condition_pb2.CONDITION_STATUS_FALSE,
    "Unknown": condition_pb2.CONDITION_STATUS_UNKNOWN,
}
