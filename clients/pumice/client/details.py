"""The details that a core sends with every error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from pumice.v1.configuration_pb2 import ConfigurationProblem
from pumice.v1.object_pb2 import RejectedObject

DOMAIN: Final = "pumice.v1"
_KEY: Final = "grpc-status-details-bin"


@dataclass(slots=True)
class StatusDetails:
    """The data of an error; empty if the error is not from a core."""

    # A name of ErrorReason without its prefix, such as `EPOCH_STALE`.
    reason: str = ""
    # A recommendation for the caller.
    advice: str = ""
    # Further data of ErrorInfo, by the names in error.proto.
    metadata: dict[str, str] = field(default_factory=dict)
    # Invalid fields, each with its problem.
    violations: list[tuple[str, str]] = field(default_factory=list)
    # The delay before the next attempt; 0 if the core sent none.
    retry_after_seconds: float = 0.0
    rejected: list[RejectedObject] = field(default_factory=list)
    problems: list[ConfigurationProblem] = field(default_factory=list)

    @property
    def nearest_names(self) -> list[str]:
        names = self.metadata.get("nearest_names", "")
        return names.split(",") if names else []

    @property
    def limit_name(self) -> str:
        return self.metadata.get("limit_name", "")

    @property
    def limit(self) -> int:
        return int(self.metadata.get("limit", 0))

    @property
    def given(self) -> int:
        return int(self.metadata.get("given", 0))


def read_status_details(metadata: Iterable[tuple[str, Any]] | None) -> StatusDetails:
    """The details in the trailing metadata of a failed call."""
    detail = StatusDetails()
    for key, value in metadata or ():
        if key == _KEY:
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                # Not from a core.
                continue
            for packed in status.details:
                _take(detail, packed)
    return detail


def _take(detail: StatusDetails, packed: Any) -> None:
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    retry, rejected = error_details_pb2.RetryInfo(), RejectedObject()
    problem = ConfigurationProblem()
    if packed.Unpack(info):
        if info.domain == DOMAIN:
            detail.reason, detail.metadata = info.reason, dict(info.metadata)
            detail.advice = detail.metadata.pop("advice", "")
    elif packed.Unpack(bad):
        detail.violations += [(one.field, one.description) for one in bad.field_violations]
    elif packed.Unpack(retry):
        detail.retry_after_seconds = retry.retry_delay.ToTimedelta().total_seconds()
    elif packed.Unpack(rejected):
        detail.rejected.append(rejected)
    elif packed.Unpack(problem):
        detail.problems.append(problem)
