"""Watches the lease, so that a standby notices a release before its next poll."""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.runtime.objects import KindNumber

log = logging.getLogger(__name__)

LEASES: Final = Resource(
    KindNumber(0), "Lease", "leases", "coordination.k8s.io", "v1", namespaced=True
)


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_LEASE: Final = msgspec.json.Decoder(_Lease)


class LeaseStore:
    """Receives one Lease from a reflector, and calls back if the lease has no holder."""

    def __init__(self, name: str, on_free: Callable[[], None]) -> None:
        self._name, self._on_free = name, on_free

    @property
    def source(self) -> Source:
        return Source(LEASES, f"metadata.name={self._name}")

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        if head.metadata.name != self._name:
            return
        try:
            lease = _LEASE.decode(raw)
        except msgspec.MsgspecError as error:
            log.warning("the lease %s cannot be read: %s", self._name, error)
            return
        if not lease.spec.holder_identity:
            self._on_free()

    def delete(self, head: Head) -> None:
        if head.metadata.name == self._name:
            self._on_free()

    def begin_list(self) -> None:
        """Does nothing, because there is at most one object."""

    def end_list(self, version: str) -> None:
        """Does nothing, because there is at most one object."""

    async def wait_for_space(self) -> None:
        """Does nothing, because nothing is queued."""
