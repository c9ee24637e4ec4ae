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
    """The data of a failed call, as far as the core sent them."""

    # A stable name for the kind of error; empty: the error did not come from a core.
    reason: str = ""
    advice: str = ""
    nearest_names: tuple[str, ...] = ()
    # Fields of the request, each with what is wrong with it.
    violations: tuple[tuple[str, str], ...] = ()
    rejected: tuple[RejectedObject, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()
    limit_name: str = ""
    limit: int = 0
    given: int = 0
    # The core says that the same call can succeed after this time; 0: it does not say so.
    retry_after_seconds: float = 0.0


class ClientError(Exception):
    """Any error of the client library."""

    default_advice = "correct the call, and try again"

    def __init__(self, message: str, details: ErrorDetails | None = None) -> None:
        super().__init__(message)
        self.details = details or ErrorDetails()

    @property
    def reason(self) -> str:
        """The core's stable name for the kind of error; empty: no core answered."""
        return self.details.reason

    @property
    def advice(self) -> str:
        """What the caller can do."""
        return self.details.advice or self.default_advice

    @property
    def retryable(self) -> bool:
        """The same call can succeed later."""
        return self.details.retry_after_seconds > 0

    @property
    def nearest_names(self) -> tuple[str, ...]:
        """Similar names that exist, or the names to choose from."""
        return self.details.nearest_names


class SettingsError(ClientError, ValueError):
    """An invalid setting. The message names it, its source and what is allowed."""

    default_advice = "correct the setting"


class ArgumentError(ClientError, ValueError):
    """An argument that cannot be used. The message names it and what is allowed."""

    default_advice = "correct the argument"


class ClosedError(ClientError):
    """A call of a client that was closed."""

    default_advice = "create another client"


class CallError(ClientError):
    """A call that failed for another reason than those below."""

    default_advice = "read the log of the core"


class CoreUnavailableError(CallError):
    """No core answers, or the core is not ready for the cluster yet."""

    default_advice = "start a core, or correct the address"
    retryable = True


class HandshakeError(CallError):
    """Core and client do not agree on TLS."""

    default_advice = "correct tls_ca, tls_cert and tls_key"


class DeadlineExceededError(CallError):
    """The core did not answer in time."""

    default_advice = "increase timeout_seconds, or ask for less"


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

    default_advice = "ask for less, or later"

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


# Errors of a core that is away, starting or busy; those who poll ignore them.
OUTAGES = (CoreUnavailableError, NotFoundError, DeadlineExceededError)
