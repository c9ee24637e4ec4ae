"""The errors of the engine."""

from __future__ import annotations

from dataclasses import dataclass


class PumiceError(Exception):
    """Anything that goes wrong in the engine."""


class InputError(PumiceError):
    """Invalid input, which the sender can correct."""


class InvariantError(PumiceError):
    """The engine is in an impossible state: a bug, which the core never catches."""


class ObjectError(InputError):
    """An invalid object; its last valid version stays in the cache."""

    def __init__(self, kind: str, key: str, field: str, problem: str) -> None:
        super().__init__(f"{kind} {key}: {field}: {problem}")
        self.kind = kind
        self.key = key
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a configuration, and where in it."""

    path: tuple[str | int, ...]
    message: str
    # The nearest valid name, if there is one.
    suggestion: str = ""
    # Whether the configuration can be used nevertheless.
    warning: bool = False

    def __str__(self) -> str:
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)
        return f"{where.lstrip('.') or 'configuration'}: {self.message}"


class ConfigurationError(InputError):
    """A scheduler configuration that cannot be used; all its problems at once, warnings last."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems if not problem.warning))
        self.problems = problems
