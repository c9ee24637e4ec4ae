"""Peers: addresses and certificates of callers, and how much each may have at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pumice.server import errors

# How a certificate names a cluster: a URI among its subject alternative names.
CLUSTER_URI = "pumice://cluster/"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a caller's certificate says; without one everything is empty."""

    # The common name, then the alternative names.
    names: tuple[str, ...] = ()
    # Named by URIs of the form pumice://cluster/NAME, with NAME percent-encoded.
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
    """Names the caller: by certificate where there is one, else by address without the port."""
    names = certificate_of(context).names
    if names:
        return f"certificate:{names[0]}"
    address = str(context.peer())
    return address.rpartition(":")[0] if address.startswith(("ipv4:", "ipv6:")) else "unix"


class PeerCounts:
    """How many of something each peer has; more than the limit is refused."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._counts: Counter[str] = Counter()

    def take(self, peer: str) -> None:
        if self._counts[peer] >= self._limit:
            raise errors.LimitError(self._name, self._limit, self._counts[peer] + 1)
        self._counts[peer] += 1

    def give_back(self, peer: str) -> None:
        self._counts[peer] -= 1
        if self._counts[peer] <= 0:
            del self._counts[peer]

    @contextmanager
    def one(self, peer: str) -> Iterator[None]:
        self.take(peer)
        try:
            yield
        finally:
            self.give_back(peer)
