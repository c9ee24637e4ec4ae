"""Who is calling: addresses and certificates, and what each may have at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pumice.server import errors


def peer_of(context: Any) -> str:
    """Names the caller: by certificate where there is one, else by address without the port."""
    names = certificate_names(context)
    if names:
        return f"certificate:{names[0]}"
    address = str(context.peer())
    return address.rpartition(":")[0] if address.startswith(("ipv4:", "ipv6:")) else "unix"


def certificate_names(context: Any) -> list[str]:
    """The common name and the alternative names of the caller's certificate."""
    held = context.auth_context()
    found = [*held.get("x509_common_name", ()), *held.get("x509_subject_alternative_name", ())]
    return [name.decode(errors="replace") for name in found]


def check_cluster(context: Any, cluster: str) -> None:
    """With mutual TLS the certificate must name the cluster that the caller speaks for."""
    names = certificate_names(context)
    if not names:
        raise errors.UnauthenticatedError
    if cluster not in names:
        raise errors.ClusterDeniedError(cluster)


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
