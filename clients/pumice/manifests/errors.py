"""Errors of manifests, each in one line with the object, the field and the allowed values."""

from __future__ import annotations


class FieldError(ValueError):
    """An invalid field; the caller adds the object."""

    def __init__(self, field: str, problem: str, allowed: str = "") -> None:
        super().__init__(field, problem, allowed)
        self.field = field
        self.problem = problem
        self.allowed = allowed

    def __str__(self) -> str:
        text = f"{self.field}: {self.problem}" if self.field else self.problem
        return f"{text}; allowed: {self.allowed}" if self.allowed else text

    def under(self, field: str) -> FieldError:
        """The same problem with the path from the containing object."""
        separator = "." if self.field and not self.field.startswith("[") else ""
        return FieldError(f"{field}{separator}{self.field}", self.problem, self.allowed)


class ManifestError(ValueError):
    """An invalid object or file."""

    def __init__(
        self,
        problem: str,
        *,
        source: str = "",
        kind: str = "",
        name: str = "",
        field: str = "",
        allowed: str = "",
        job: str = "",
    ) -> None:
        super().__init__(problem, source, kind, name, field, allowed, job)
        self.problem = problem
        # The file, with the line if it is known.
        self.source = source
        self.kind = kind
        # ``namespace/name``, or the name alone for an object without a namespace.
        self.name = name
        self.field = field
        self.allowed = allowed
        # The PodGroup that lacks this object, as ``namespace/name``; empty if none is known.
        self.job = job

    def made_for(self, kind: str, name: str, field: str, job: str) -> ManifestError:
        """The same problem, reported for the workload that the object was generated from."""
        separator = "." if field and self.field else ""
        return ManifestError(
            self.problem,
            source=self.source,
            kind=kind,
            name=name,
            field=f"{field}{separator}{self.field}",
            allowed=self.allowed,
            job=job,
        )

    def __str__(self) -> str:
        subject = " ".join(part for part in (self.kind, self.name) if part)
        parts = [part for part in (self.source, subject, self.field, self.problem) if part]
        text = ": ".join(parts)
        return f"{text}; allowed: {self.allowed}" if self.allowed else text

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling between processes.
        return _rebuild, (
            self.problem,
            {
                "source": self.source,
                "kind": self.kind,
                "name": self.name,
                "field": self.field,
                "allowed": self.allowed,
                "job": self.job,
            },
        )


def _rebuild(problem: str, named: dict[str, str]) -> ManifestError:
    return ManifestError(problem, **named)


class TooManyObjectsError(ValueError):
    """The documents contain more objects than the caller allows."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} objects")
        self.most = most
