"""Peers: addresses and certificates of callers, and limits for each peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pumice.server import errors

# Prefix of the URI with which a certificate names a cluster, among its subject alternative names.
CLUSTER_URI = "pumice://cluster/"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of a caller; all fields are empty without one."""

    # The common name, then the subject alternative names.
    names: tuple[str, ...] = ()
    # From URIs of the form pumice://cluster/NAME, with NAME percent-encoded.
    clusters: frozenset[str] = frozenset()


def certificate_of(context: Any) -> Certificate:
    held = context.auth_context()
    found = [*held.get("x509_common_name", ()), *held.get("x509_subject_alternative_name", ())]
    uris = [uri.decode(errors="replace") for uri in held.get("peer_uri", ())]
    return Certificate(
        tuple(name.decode(errors="replace") for name in found),
        frozenset(unquote(u.removeprefix(CLUSTER_URI)) for u in uris if u.startswith(CLUSTER_URI)),
    )


def peer_of(context: Any) -> str:
    """The name of the caller: from its certificate, or its address without the port."""
    names = certificate_of(context).names
    if names:
        return f"certificate:{names[0]}"
    address = str(context.peer())
    return address.rpartition(":")[0] if address.startswith(("ipv4:", "ipv6:")) else "unix"


class PeerCounts:
    """Counts something per peer, up to a limit. Raises LimitError above it."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._counts: Counter[str] = Counter()

    def acquire(self, peer: str) -> None:
        if self._counts[peer] >= self._limit:
            raise errors.LimitError(self._name, self._limit, self._counts[peer] + 1)
        self._counts[peer] += 1

    def release(self, peer: str) -> None:
        self._counts[peer] -= 1
        if self._counts[peer] <= 0:
            del self._counts[peer]

    @contextmanager
    def acquired(self, peer: str) -> Iterator[None]:
        self.acquire(peer)
        try:
            yield
        finally:
            self.release(peer)
