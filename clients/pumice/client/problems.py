"""Problems of a request: invalid parts, and probable mistakes."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.client.enums import Severity, member_of
from pumice.client.values import Value
from pumice.v1 import job_result_pb2


@dataclass(frozen=True, slots=True)
class Problem(Value):
    """A part of a request that is invalid or has no effect."""

    # The part with an error was left out; the part with a warning was used.
    severity: Severity
    # The file and line of the document; empty for the request itself.
    source: str
    kind: str
    # ``namespace/name``, or the name alone.
    key: str
    field: str
    problem: str
    # The allowed values; empty if they cannot be listed.
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
