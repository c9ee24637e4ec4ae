"""Problems of a request: objects that were omitted, and objects that may be mistakes."""

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

# Number of problems in a response. One more has the number of the others.
MAX_PROBLEMS = 100


class ProblemSubject(TypedDict, total=False):
    """The object and field of a problem."""

    source: str
    kind: str
    key: str
    field: str
    allowed: str


class Problems:
    """Collects problems without duplicates."""

    def __init__(self) -> None:
        self._errors: dict[bytes, RequestProblem] = {}
        self._warnings: dict[bytes, RequestProblem] = {}

    def error(self, problem: str, **named: Unpack[ProblemSubject]) -> None:
        """Adds a problem because of which an object was omitted."""
        self._add(self._errors, PROBLEM_SEVERITY_ERROR, problem, named)

    def warn(self, problem: str, **named: Unpack[ProblemSubject]) -> None:
        """Adds a problem of an object that was used, but may be a mistake."""
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
        """Adds ``count`` objects that were rejected for the same reason, of which one is given."""
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
            f"a scheduler does not read {ignored.api_version} {ignored.kind}, so it has no effect",
            source=ignored.source,
            kind=ignored.kind,
            key=ignored.name,
        )

    def add_note(self, note: Note) -> None:
        self.warn(note.text, source=note.source, kind=note.kind, key=note.name, field=note.field)

    def all(self) -> Iterable[RequestProblem]:
        """All problems, errors first."""
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
        named: ProblemSubject,
    ) -> None:
        made = RequestProblem(severity=severity, problem=problem, **named)
        to.setdefault(made.SerializeToString(deterministic=True), made)
