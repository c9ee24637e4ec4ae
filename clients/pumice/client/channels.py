"""gRPC channels to a core: options, credentials and the metadata of calls."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc
import grpc.aio

from pumice.client.errors import SettingsError
from pumice.client.settings import ClientSettings

KEEPALIVE_MS = 10_000
# The client reconnects to a restarted core within a second; 16 MiB is the largest response of a core.
_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # A core that disappears silently is detected on an idle stream. A core allows a ping a second.
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS),
    ("grpc.http2.max_pings_without_data", 0),
)
_SERVER_NAME = "grpc.ssl_target_name_override"


def open_channel(
    settings: ClientSettings, credentials: grpc.ChannelCredentials | None
) -> grpc.aio.Channel:
    """A channel of the running event loop; without TLS if there are no credentials."""
    name = settings.tls_server_name
    options = [*_OPTIONS, *([(_SERVER_NAME, name)] if name else [])]
    if credentials is None:
        return grpc.aio.insecure_channel(settings.address, options=options)
    return grpc.aio.secure_channel(settings.address, credentials, options=options)


def metadata_of(settings: ClientSettings) -> tuple[tuple[str, str], ...]:
    token = settings.bearer()
    return (("authorization", f"Bearer {token}"),) if token else ()


def read_credentials(settings: ClientSettings) -> grpc.ChannelCredentials | None:
    """The credentials of a channel; None without TLS. Raises SettingsError."""
    if not settings.is_secure:
        if (settings.token or settings.token_file) and not (settings.is_local or settings.insecure):
            raise SettingsError(
                f"the token would be sent to another machine ({settings.address}) without TLS; "
                "set tls_ca, or set insecure to allow it"
            )
        return None
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingsError("only one of tls_cert and tls_key is set; set both")
    authority, key, certificate = map(_file, (settings.tls_ca, settings.tls_key, settings.tls_cert))
    _check(settings)
    return grpc.ssl_channel_credentials(authority, key, certificate)


def _check(settings: ClientSettings) -> None:
    """Raises SettingsError for an invalid file; gRPC would only report a failed connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if settings.tls_ca:
            context.load_verify_locations(settings.tls_ca)
    except ssl.SSLError:
        raise SettingsError(f"tls_ca {settings.tls_ca}: no certificate in PEM format") from None
    try:
        if settings.tls_cert:
            # Without the empty password, OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except ssl.SSLError as error:
        pair = f"tls_cert {settings.tls_cert} and tls_key {settings.tls_key}"
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        problem = "do not belong together" if mismatch else "no certificate and key in PEM format"
        raise SettingsError(f"{pair}: {problem}") from None


def _file(name: str) -> bytes | None:
    try:
        return Path(name).read_bytes() if name else None
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror or error}") from None
