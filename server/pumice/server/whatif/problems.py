"""Problems of a request: what was left out of it, and what was perhaps not meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict, Unpack

from pumice.manifests import IgnoredObject, ManifestError, Note
from pumice.server.wire import kind_word
from pumice.v1.job_result_pb2 import (
    PROBLEM_SEVERITY_ERROR,
    PROBLEM_SEVERITY_WARNING,
    ProblemSeverity,
    RequestProblem,
)
from pumice.v1.object_pb2 import RejectedObject

# Problems that an answer lists; a last one tells how many more there are.
MAX_PROBLEMS = 100


class Named(TypedDict, total=False):
    """What a problem is about."""

    source: str
    kind: str
    key: str
    field: str
    allowed: str


class Problems:
    """Collects problems; equal ones are listed once."""

    def __init__(self) -> None:
        self._errors: dict[bytes, RequestProblem] = {}
        self._warnings: dict[bytes, RequestProblem] = {}

    def error(self, problem: str, **named: Unpack[Named]) -> None:
        """What it is about was left out."""
        self._add(self._errors, PROBLEM_SEVERITY_ERROR, problem, named)

    def warn(self, problem: str, **named: Unpack[Named]) -> None:
        """What it is about was used, perhaps not as it was meant."""
        self._add(self._warnings, PROBLEM_SEVERITY_WARNING, problem, named)

    def add_manifest_error(self, error: ManifestError) -> None:
        self.error(
            error.problem,
            source=error.source,
            kind=error.kind,
            key=error.name,
            field=error.field,
            allowed=error.allowed,
        )

    def add_rejected(self, rejected: RejectedObject, source: str, count: int) -> None:
        """Adds objects that were rejected for the same reason, of which one is given."""
        more = f" (and {count - 1} more objects)" if count > 1 else ""
        self.error(
            f"{rejected.reason}{more}",
            source=source,
            kind=kind_word(rejected.kind),
            key=rejected.key,
            field=rejected.field,
        )

    def add_ignored(self, ignored: IgnoredObject) -> None:
        self.warn(
            f"{ignored.api_version} {ignored.kind} is not read by a scheduler and has no effect here",
            source=ignored.source,
            kind=ignored.kind,
            key=ignored.name,
        )

    def add_note(self, note: Note) -> None:
        self.warn(note.text, source=note.source, kind=note.kind, key=note.name, field=note.field)

    def all(self) -> Iterable[RequestProblem]:
        """Errors first."""
        found = [*self._errors.values(), *self._warnings.values()]
        yield from found[:MAX_PROBLEMS]
        more = found[MAX_PROBLEMS:]
        if more:
            yield RequestProblem(severity=more[0].severity, problem=f"{len(more)} more problems")

    def _add(
        self,
        to: dict[bytes, RequestProblem],
        severity: ProblemSeverity.ValueType,
        problem: str,
        named: Named,
    ) -> None:
        made = RequestProblem(severity=severity, problem=problem, **named)
        to.setdefault(made.SerializeToString(deterministic=True), made)
