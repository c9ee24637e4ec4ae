"""The channel to the core: addresses, TLS files and limits."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import grpc
import grpc.aio

ChannelFactory: TypeAlias = Callable[[], grpc.aio.Channel]

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificates lie. They are read for every new stream, so a rotation needs no restart."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    # The name in the core's certificate, when it is not the address.
    server_name: str = ""


def channel_factory(
    address: str, tls: TlsFiles | None = None, *, insecure: bool = False
) -> ChannelFactory:
    """Makes channels to `unix:/path` or `host:port`.

    Raises ValueError for an address that is neither this machine nor protected, unless insecure.
    """
    if tls is None and not insecure and not is_local(address):
        raise ValueError(
            f"{address} is another machine: give TLS certificates, or say insecure to do without"
        )

    def open_channel() -> grpc.aio.Channel:
        options: list[tuple[str, int | str]] = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            # Above the five minutes below which a server takes pings for an attack.
            ("grpc.keepalive_time_ms", 310_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            # Reconnecting is the runtime's business, at its own pace.
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if tls is None:
            return grpc.aio.insecure_channel(address, options=options)
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        return grpc.aio.secure_channel(address, _credentials(tls), options=options)

    return open_channel


def is_local(address: str) -> bool:
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host, _, _ = address.removeprefix("dns:///").rpartition(":")
    return host in _LOOPBACK


def _credentials(tls: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=tls.ca.read_bytes(),
        private_key=tls.key.read_bytes() if tls.key else None,
        certificate_chain=tls.certificate.read_bytes() if tls.certificate else None,
    )
