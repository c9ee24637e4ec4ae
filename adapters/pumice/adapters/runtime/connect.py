"""The channel to the core: addresses, TLS files, tokens and limits."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

ChannelFactory: TypeAlias = Callable[[], grpc.aio.Channel]

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
# The core allows a ping every second.
KEEPALIVE_MS: Final = 5_000
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of certificates. They are read for every new stream: rotation needs no restart."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    # The name in the core's certificate, if it is not the address.
    server_name: str = ""


def channel_factory(
    address: str,
    tls: TlsFiles | None = None,
    *,
    bearer: Callable[[], str] | None = None,
    insecure: bool = False,
) -> ChannelFactory:
    """Makes channels to `unix:/path` or `host:port`.

    ``bearer`` returns the token for each stream, so that rotation needs no restart. It may raise
    ValueError; then the stream is retried later. Raises ValueError for another machine without TLS,
    unless ``insecure``, and for a token that would be sent without encryption.
    """
    if tls is None and not insecure and not is_local(address):
        raise ValueError(
            f"{address} is another machine: use TLS certificates, or --insecure to connect without TLS"
        )
    if bearer is not None and tls is None and not is_socket(address):
        raise ValueError(
            f"a token for {address} would be sent without encryption: "
            "use --tls-ca, or a Unix socket"
        )

    def open_channel() -> grpc.aio.Channel:
        options: list[tuple[str, int | str]] = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            # A peer that disappears silently is detected within seconds, even on an idle stream.
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
            # Timeout after a ping; the default is a minute.
            ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS),
            ("grpc.http2.max_pings_without_data", 0),
            # The runtime reconnects by itself.
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if tls is None and bearer is None:
            return grpc.aio.insecure_channel(address, options=options)
        if tls is not None and tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        return grpc.aio.secure_channel(address, _credentials(tls, bearer), options=options)

    return open_channel


def is_socket(address: str) -> bool:
    return address.startswith(("unix:", "unix-abstract:"))


def is_local(address: str) -> bool:
    if is_socket(address):
        return True
    host, _, _ = address.removeprefix("dns:///").rpartition(":")
    return host in _LOOPBACK


def _credentials(tls: TlsFiles | None, bearer: Callable[[], str] | None) -> grpc.ChannelCredentials:
    if tls is None:
        # A Unix socket is not encrypted, but gRPC sends tokens only over channels with credentials.
        channel = grpc.local_channel_credentials(grpc.LocalConnectionType.UDS)
    else:
        channel = grpc.ssl_channel_credentials(
            root_certificates=tls.ca.read_bytes(),
            private_key=tls.key.read_bytes() if tls.key else None,
            certificate_chain=tls.certificate.read_bytes() if tls.certificate else None,
        )
    if bearer is None:
        return channel
    sends = grpc.metadata_call_credentials(_BearerPlugin(bearer))
    return grpc.composite_channel_credentials(channel, sends)


class _BearerPlugin(grpc.AuthMetadataPlugin):
    """Supplies the authorization header. gRPC calls it on its own thread."""

    def __init__(self, bearer: Callable[[], str]) -> None:
        self._bearer = bearer

    def __call__(self, context: Any, callback: Any) -> None:
        try:
            token = self._bearer()
        except ValueError as error:
            callback((), error)
        else:
            callback((("authorization", f"Bearer {token}"),), None)
