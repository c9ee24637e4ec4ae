"""Checks the addresses that a core listens on, and which of them need TLS."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pumice.core.errors import InputError

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))
_HIGHEST_PORT = 65_535
# Bytes of the path of a Unix socket, in Linux.
_MAX_SOCKET_PATH_BYTES = 107
_PROBE_SECONDS = 1.0
DEFAULT_ADDRESS = "127.0.0.1:7461"


class AddressError(InputError):
    """An invalid address."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"{address}: {problem}")
        self.address = address


def check_address(address: str, *, mutual_tls: bool, insecure: bool) -> None:
    """An address that other machines can reach needs mutual TLS. Raises AddressError."""
    if address.startswith("unix:"):
        _check_socket(address, Path(socket_path(address)))
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not host:
        raise AddressError(address, "use HOST:PORT or unix:/path/to/socket")
    if int(port) > _HIGHEST_PORT:
        raise AddressError(address, f"the port is above {_HIGHEST_PORT}")
    if host not in _LOOPBACK and not mutual_tls and not insecure:
        raise AddressError(
            address,
            "other machines can reach this address; use --tls-cert, --tls-key and --tls-client-ca, "
            "or --insecure",
        )


def _check_socket(address: str, path: Path) -> None:
    if not path.parent.is_dir():
        raise AddressError(address, f"the folder {path.parent} does not exist")
    size = len(os.fsencode(path))
    if size > _MAX_SOCKET_PATH_BYTES:
        problem = f"the path has {size} bytes; at most {_MAX_SOCKET_PATH_BYTES} are allowed"
        raise AddressError(address, problem)
    if path.exists() and not path.is_socket():
        raise AddressError(address, "this file exists and is not a socket")
    if _is_served(path):
        # gRPC would replace the socket, and later connections would reach another core.
        raise AddressError(address, "another process listens on this socket")


def _is_served(path: Path) -> bool:
    """Whether a process listens on a socket. The socket of a process that was killed remains."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(os.fsencode(path))
        except TimeoutError:
            # Its queue of connections is full.
            return True
        except OSError:
            return False
    return True


def read_http_address(address: str) -> tuple[str, int]:
    """Returns host and port; the default host is 127.0.0.1. Raises AddressError."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > _HIGHEST_PORT:
        raise AddressError(
            address, "use HOST:PORT, such as 127.0.0.1:9090; port 0 means any free port"
        )
    return host or "127.0.0.1", int(port)


def socket_path(address: str) -> str:
    return address.removeprefix("unix:").removeprefix("//")
