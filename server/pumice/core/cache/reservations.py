"""Volumes and devices that sessions reserve for pods, until the cluster shows them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class Reservations(Generic[V]):
    """Reserved values by key, each with the pods that it is reserved for.

    A value is reserved until the session ends. If the pod was bound, it stays reserved until the
    cluster shows it, or the decision fails, or the pod is gone.
    """

    def __init__(self, *, shared: bool) -> None:
        # Whether several pods can reserve one value, which is then reserved until all of them are done.
        self._shared = shared
        self._held: dict[str, tuple[V, dict[str, None]]] = {}
        # Pods of the running session that reserved something.
        self._open: dict[str, None] = {}
        # Grows with every change.
        self.version = 0

    def get(self, key: str) -> V | None:
        held = self._held.get(key)
        return None if held is None else held[0]

    def values(self) -> list[V]:
        return [value for value, _ in self._held.values()]

    def is_open(self, pod_uid: str) -> bool:
        return pod_uid in self._open

    def reserve(self, pod_uid: str, values: Mapping[str, V]) -> None:
        """Reserves values for a pod; a key that has a value already keeps it."""
        for key, value in values.items():
            if self._shared or key not in self._held:
                self._held.setdefault(key, (value, {}))[1][pod_uid] = None
        self._open[pod_uid] = None
        self.version += 1

    def unreserve(self, pod_uid: str) -> None:
        """Frees what is reserved for a pod and for no other."""
        self._open.pop(pod_uid, None)
        if not self._held:
            return
        for key in [key for key, (_, pods) in self._held.items() if pod_uid in pods]:
            pods = self._held[key][1]
            del pods[pod_uid]
            if not pods:
                del self._held[key]
        self.version += 1

    def close(self, decided: Container[str]) -> None:
        """Ends a session: frees the reservations of pods without a decision."""
        for pod_uid in list(self._open):
            if pod_uid not in decided:
                self.unreserve(pod_uid)
        self._open.clear()

    def updated(self, shown: str = "") -> None:
        """Notes a change of the cluster; a key that the cluster now shows is no longer reserved."""
        self._held.pop(shown, None)
        self.version += 1

    def snapshot(self) -> tuple[tuple[str, str, V], ...]:
        """The keys, with their pods and values."""
        return tuple((key, pod, value) for key, (value, pods) in self._held.items() for pod in pods)

    def restore(self, held: Iterable[tuple[str, str, V]]) -> None:
        self._held = {}
        for key, pod, value in held:
            self._held.setdefault(key, (value, {}))[1][pod] = None
        self.version += 1
