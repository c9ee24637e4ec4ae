"""Errors of calls to an API server, with advice."""

import re
from typing import Final

from pumice.adapters.runtime.errors import AdapterError

_FORBIDDEN: Final = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
EXPIRED: Final = 410
UNPROCESSABLE: Final = 422
THROTTLED: Final = 429
SERVER_ERROR: Final = 500
GATEWAY_TIMEOUT: Final = 504


class KubernetesError(AdapterError):
    """An error of this cluster. The message contains advice."""


class NoAccessError(KubernetesError):
    """There is no kubeconfig, or it is invalid."""


class BadCredentialsError(KubernetesError):
    """The API server refuses the credentials."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"bad credentials: the API server refuses them ({message}); they may have expired:"
            " renew the token, certificate or exec plugin of the kubeconfig"
        )


class UnreachableError(KubernetesError):
    """The API server cannot be reached. The call was not sent."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(
            f"the API server {server} cannot be reached ({problem});"
            " check the address in the kubeconfig, the network and the proxy"
        )


class LostAnswerError(KubernetesError):
    """A call was sent, but no valid response arrived. It may have taken effect."""


class NotLeadingError(KubernetesError):
    """A call was not sent, because this process no longer holds the lease."""

    def __init__(self) -> None:
        super().__init__("this process is no longer the leader")


class ReadOnlyError(KubernetesError):
    """A write was not sent, because this adapter is read-only."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"{method} {path} was not sent: this adapter is read-only (--shadow)")


class ApiError(KubernetesError):
    """The API server refused a call."""

    def __init__(
        self, status: int, reason: str = "", message: str = "", retry_after: float = 0.0
    ) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status = status
        self.reason = reason
        self.message = message
        # The seconds of the Retry-After header.
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        return self.status == THROTTLED or self.status >= SERVER_ERROR


class MissingRightsError(ApiError):
    """The account of the adapter lacks a right."""

    def __init__(self, message: str) -> None:
        found = _FORBIDDEN.search(message)
        if found is None:
            self.right = ""
            text = f"missing rights: {message}"
        else:
            resource = found["resource"]
            if found["group"]:
                resource = f"{resource}.{found['group']}"
            self.right = f"{found['verb']} on {resource}"
            where = f" in namespace {found['namespace']}" if found["namespace"] else ""
            text = f"missing rights: {self.right}{where}; grant it to this adapter's account"
        super().__init__(FORBIDDEN, "Forbidden", text)


class WithheldError(ApiError):
    """A call was not sent, because the API server has refused such calls for a missing right."""

    def __init__(self, message: str) -> None:
        super().__init__(FORBIDDEN, "Forbidden", message)


class NamespaceTerminatingError(ApiError):
    """A terminating namespace, in which nothing can be created. A binding is a creation."""


class WorldEndedError(KubernetesError):
    """A task that should run as long as the adapter has ended."""


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
