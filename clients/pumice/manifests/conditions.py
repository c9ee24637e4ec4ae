"""The statuses of Kubernetes conditions."""

from __future__ import annotations

from typing import Final

from pumice.v1 import condition_pb2

# Any other status is translated to unspecified.
STATUSES: Final = {
    "True": condition_pb2.CONDITION_STATUS_TRUE,
    "False": condition_pb2.CONDITION_STATUS_FALSE,
    "Unknown": condition_pb2.CONDITION_STATUS_UNKNOWN,
}
