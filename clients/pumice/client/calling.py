"""What calls have in common: credentials, deadlines, and what is tried again."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from tenacity import RetryCallState, retry_if_exception, wait_random_exponential

from pumice.client.errors import ClientError, CoreUnavailableError, LimitExceededError
from pumice.client.settings import ClientSettings, SettingsError

# A core that was started again is to be found at once; answers may be as large as a core sends.
OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
]
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.1, 5.0


def is_worth_repeating(error: BaseException) -> bool:
    """Every call here may be repeated: nothing changes anything, and Schedule has its id.

    Only what may be over soon is: a core that is away or not complete, and too many at once; not
    a request that is too large, which stays too large.
    """
    return isinstance(error, CoreUnavailableError) or _is_busy(error)


def _is_busy(error: BaseException | None) -> bool:
    if not isinstance(error, LimitExceededError):
        return False
    return error.detail.limit_name in {"requests at once", "watchers"}


def _is_enough(settings: ClientSettings) -> Callable[[RetryCallState], bool]:
    """A core that is away is tried so often; one that is busy as long as a call may take."""

    def stop(state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        if _is_busy(error):
            return (state.seconds_since_start or 0.0) >= settings.timeout_seconds
        return state.attempt_number >= settings.attempts

    return stop


def retries(settings: ClientSettings) -> dict[str, Any]:
    """Arguments of tenacity's retrying objects of either kind."""
    return {
        "retry": retry_if_exception(is_worth_repeating),
        "wait": wait_random_exponential(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS),
        "stop": _is_enough(settings),
        "reraise": True,
    }


def metadata(settings: ClientSettings) -> tuple[tuple[str, str], ...]:
    token = settings.bearer()
    return (("authorization", f"Bearer {token}"),) if token else ()


def credentials(settings: ClientSettings) -> grpc.ChannelCredentials | None:
    """None: a channel without TLS."""
    if not settings.is_secure:
        if (settings.token or settings.token_file) and not (settings.is_local or settings.insecure):
            raise SettingsError(
                f"{settings.address} is another machine, and a token sent there without TLS can be "
                "read on its way; give tls_ca, or insecure to send it nevertheless"
            )
        return None
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingsError("tls_cert and tls_key go together; give both")
    files = [settings.tls_ca, settings.tls_key, settings.tls_cert]
    held = [_file(name) for name in files]
    _check(settings)
    return grpc.ssl_channel_credentials(*held)


def _check(settings: ClientSettings) -> None:
    """Says what is wrong with the files; gRPC would say that there is no connection, no more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if settings.tls_ca:
            context.load_verify_locations(settings.tls_ca)
    except ssl.SSLError:
        raise SettingsError(f"tls_ca {settings.tls_ca}: holds no certificate in PEM") from None
    try:
        if settings.tls_cert:
            # Without the empty password, a key that needs one would be asked for on the terminal.
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except ssl.SSLError as error:
        pair = f"tls_cert {settings.tls_cert} and tls_key {settings.tls_key}"
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        problem = "do not belong together" if mismatch else "are no certificate and key in PEM"
        raise SettingsError(f"{pair}: {problem}") from None


def _file(name: str) -> bytes | None:
    try:
        return Path(name).read_bytes() if name else None
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror or error}") from None


def options(settings: ClientSettings) -> list[tuple[str, Any]]:
    named = settings.tls_server_name
    return [*OPTIONS, *([("grpc.ssl_target_name_override", named)] if named else [])]


def path_of(service: str, method: str) -> str:
    return f"/pumice.v1.{service}/{method}"


__all__ = ["ClientError", "credentials", "is_worth_repeating", "metadata", "options", "retries"]
