"""The errors of the client library: one tree, each with advice for the caller."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.client.configurations import ConfigProblem
from pumice.client.values import Value


@dataclass(frozen=True, slots=True)
class RejectedObject(Value):
    """An invalid object of a request."""

    kind: str
    # ``namespace/name``, or the name alone.
    key: str
    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """The data that the core sent with a failed call."""

    # A stable name for the kind of error; empty if the error is not from a core.
    reason: str = ""
    advice: str = ""
    nearest_names: tuple[str, ...] = ()
    # Invalid fields of the request, each with its problem.
    violations: tuple[tuple[str, str], ...] = ()
    rejected: tuple[RejectedObject, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()
    limit_name: str = ""
    limit: int = 0
    given: int = 0
    # The time after which the same call can succeed; 0 if the core sent none.
    retry_after_seconds: float = 0.0


class ClientError(Exception):
    """The base of all errors of the client library."""

    default_advice = "correct the call, and try again"

    def __init__(self, message: str, details: ErrorDetails | None = None) -> None:
        super().__init__(message)
        self.details = details or ErrorDetails()

    @property
    def reason(self) -> str:
        """The core's stable name for the kind of error; empty if no core answered."""
        return self.details.reason

    @property
    def advice(self) -> str:
        """A recommendation for the caller."""
        return self.details.advice or self.default_advice

    @property
    def retryable(self) -> bool:
        """Whether the same call can succeed later."""
        return self.details.retry_after_seconds > 0

    @property
    def nearest_names(self) -> tuple[str, ...]:
        """Similar names that exist, or the names to choose from."""
        return self.details.nearest_names


class SettingsError(ClientError, ValueError):
    """An invalid setting. The message names it, its source and the allowed values."""

    default_advice = "correct the setting"


class ArgumentError(ClientError, ValueError):
    """An invalid argument. The message names it and the allowed values."""

    default_advice = "correct the argument"


class ClosedError(ClientError):
    """A call of a client that was closed."""

    default_advice = "create another client"


class CallError(ClientError):
    """A failed call; the subclasses are the known reasons."""

    default_advice = "read the log of the core"


class CoreUnavailableError(CallError):
    """No core answers, or the core is not ready for the cluster yet."""

    default_advice = "start a core, or correct the address"
    retryable = True


class HandshakeError(CallError):
    """The TLS handshake between core and client failed."""

    default_advice = "correct tls_ca, tls_cert and tls_key"


class DeadlineExceededError(CallError):
    """The core did not answer in time."""

    default_advice = "increase timeout_seconds, or send a smaller request"


class NotFoundError(CallError):
    """The cluster, job, pod or session does not exist."""

    default_advice = "correct the name"


class InvalidRequestError(CallError):
    """The core refused the request because of its content."""

    @property
    def rejected(self) -> tuple[RejectedObject, ...]:
        """The invalid objects."""
        return self.details.rejected

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """The errors of the configuration."""
        return self.details.problems


class LimitExceededError(CallError):
    """The request is larger than a limit, or the core serves too many requests."""

    default_advice = "send a smaller request, or retry later"

    @property
    def limit_name(self) -> str:
        return self.details.limit_name

    @property
    def limit(self) -> int:
        return self.details.limit

    @property
    def given(self) -> int:
        return self.details.given


class AccessDeniedError(CallError):
    """The token or certificate is missing or invalid, or does not permit this call."""

    default_advice = "use a token or certificate with the role that this call needs"


class RecordingEndedError(CallError):
    """The core ended a recording early. The entries received so far are complete."""


# Errors of a core that is unavailable, starting or busy; polling code ignores them.
OUTAGES = (CoreUnavailableError, NotFoundError, DeadlineExceededError)
