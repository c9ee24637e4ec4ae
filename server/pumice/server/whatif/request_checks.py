"""Checks of a request's objects: what is valid, but perhaps not what the caller means."""

from __future__ import annotations

from typing import Any

from pumice.server.state import ClusterState
from pumice.server.whatif.problems import Problems
from pumice.server.wire import READ_KINDS, kind_word
from pumice.v1 import object_pb2
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, POD_PHASE_UNSPECIFIED

_KINDS = {field.name: field.number for field in object_pb2.ClusterObject.DESCRIPTOR.fields}
_PENDING = (POD_PHASE_UNSPECIFIED, POD_PHASE_PENDING)
_UNIT = 1000
# Resources in other units than thousandths, and the ones of which a fraction is usual.
_OTHER_UNITS = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_OTHER_PREFIXES = ("hugepages-", "attachable-volumes-")


class RequestChecks:
    """Collects warnings about objects; one about several pods of a job names the first."""

    def __init__(self, state: ClusterState, problems: Problems) -> None:
        self._cache = state.engine.cache
        self._schedulers = self._cache.settings.scheduler_names
        self._problems = problems
        self._namespaces: dict[str, tuple[str, str, str]] = {}
        self._added_namespaces: set[str] = set()
        self._replaced: dict[str, tuple[str, str, str, int]] = {}
        self._foreign: dict[tuple[str, str], tuple[str, str, int]] = {}

    def check_amounts(self, word: str, message: Any) -> None:
        """Extended resources are counted in whole units, which are 1000 in messages."""
        if word == "pod":
            field, amounts = "spec.requests", message.spec.requests
        elif word == "node":
            field, amounts = "allocatable", message.allocatable
        else:
            return
        for name, given in amounts.items():
            if given % _UNIT and _is_extended(name):
                self._problems.warn(
                    f"{given} is {given / _UNIT:g} of a unit: amounts are in thousandths, and one "
                    f"unit is {_UNIT}",
                    kind=kind_word(_KINDS[word]),
                    key=f"{message.namespace}/{message.name}" if word == "pod" else message.name,
                    field=f"{field}[{name}]",
                )

    def note(self, word: str, message: Any, source: str) -> None:
        """Notes an object of the request."""
        kind = _KINDS[word]
        if kind not in READ_KINDS:
            self._problems.warn(
                "objects of this kind have no effect in this core",
                source=source,
                kind=word,
                key=message.name,
            )
        if word == "namespace":
            self._added_namespaces.add(message.name)
        elif word in ("pod", "pod_group"):
            key = f"{message.namespace}/{message.name}"
            self._namespaces.setdefault(message.namespace, (source, kind_word(kind), key))
            if word == "pod":
                self._note_scheduler(message, key, source)

    def _note_scheduler(self, pod: Any, key: str, source: str) -> None:
        name = pod.spec.scheduler_name
        if name in self._schedulers or pod.node_name or pod.phase not in _PENDING:
            return
        where = (f"{pod.namespace}/{pod.group_name}" if pod.group_name else key, name)
        first, origin, count = self._foreign.get(where, (key, source, 0))
        self._foreign[where] = (first, origin, count + 1)

    def note_replaced(self, kind: str, key: str, source: str) -> None:
        """An object of the live cluster has the same name."""
        first, origin, at, count = self._replaced.get(kind, (key, kind, source, 0))
        self._replaced[kind] = (first, origin, at, count + 1)

    def check_names(self) -> None:
        """Adds the warnings, when all objects are known."""
        for (_, name), (key, source, count) in self._foreign.items():
            said = f"{name!r} is another scheduler" if name else "is empty"
            self._problems.warn(
                f"{said}, so the pod{_more(count)} would not be scheduled by this one",
                source=source,
                kind="Pod",
                key=key,
                field="spec.schedulerName" if source else "spec.scheduler_name",
                allowed=", ".join(self._schedulers),
            )
        for key, kind, source, count in self._replaced.values():
            self._problems.warn(
                f"the cluster has a {kind} of this name{_more(count)}; the answer is for a new one "
                "in its place",
                source=source,
                kind=kind,
                key=key,
                field="metadata.name" if source else "name",
            )
        self._check_namespaces()

    def _check_namespaces(self) -> None:
        there = {namespace.name for namespace in self._cache.namespaces}
        if not there:
            # The cluster tells no namespaces.
            return
        for namespace, (source, kind, key) in self._namespaces.items():
            if namespace not in there and namespace not in self._added_namespaces:
                self._problems.warn(
                    f"the namespace {namespace!r} does not exist in the cluster",
                    source=source,
                    kind=kind,
                    key=key,
                    field="metadata.namespace" if source else "namespace",
                )


def _more(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""


def _is_extended(name: str) -> bool:
    return name not in _OTHER_UNITS and not name.startswith(_OTHER_PREFIXES)
