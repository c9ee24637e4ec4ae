"""Problems of a request: what was left out of it, and what was perhaps not meant."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.client.enums import Severity, member_of
from pumice.client.values import Value
from pumice.v1 import job_result_pb2


@dataclass(frozen=True, slots=True)
class Problem(Value):
    """Something in a request that is wrong or has no effect."""

    # An error: it was left out. A warning: it was used, perhaps not as it was meant.
    severity: Severity
    # The file and line of the document; empty: the request itself.
    source: str
    kind: str
    # ``namespace/name``, or the name alone.
    key: str
    field: str
    problem: str
    # What is allowed; empty: that cannot be listed.
    allowed: str

    @staticmethod
    def from_proto(message: job_result_pb2.RequestProblem) -> Problem:
        enum = job_result_pb2.ProblemSeverity.DESCRIPTOR
        return Problem(
            severity=member_of(Severity, enum, message.severity),
            source=message.source,
            kind=message.kind,
            key=message.key,
            field=message.field,
            problem=message.problem,
            allowed=message.allowed,
        )

    def __str__(self) -> str:
        subject = " ".join(part for part in (self.kind, self.key) if part)
        text = ": ".join(part for part in (self.source, subject, self.field, self.problem) if part)
        return f"{text}; allowed: {self.allowed}" if self.allowed else text
