"""Warns about objects of a request that are valid, but may be mistakes."""

from __future__ import annotations

import re
from typing import Any

from pumice.server.state import ClusterState
from pumice.server.whatif.problems import Problems
from pumice.server.wire import READ_KINDS, kind_word
from pumice.v1 import object_pb2
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, POD_PHASE_UNSPECIFIED

_KINDS = {field.name: field.number for field in object_pb2.ClusterObject.DESCRIPTOR.fields}
_PENDING = (POD_PHASE_UNSPECIFIED, POD_PHASE_PENDING)
_UNIT = 1000
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
# Every Kubernetes cluster has these.
_OWN_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
# Resources that are not counted in thousandths, or of which fractions are normal.
_OTHER_UNITS = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_OTHER_PREFIXES = ("hugepages-", "attachable-volumes-")


class RequestChecks:
    """Collects warnings about objects. A warning about several pods of a job names the first."""

    def __init__(self, state: ClusterState, problems: Problems) -> None:
        self._cache = state.engine.cache
        self._schedulers = self._cache.settings.scheduler_names
        self._problems = problems
        self._namespaces: dict[str, tuple[str, str, str]] = {}
        self._added_namespaces: set[str] = set()
        self._replaced: dict[str, tuple[str, str, str, int]] = {}
        self._foreign: dict[tuple[str, str], tuple[str, str, int]] = {}
        self._odd_names: dict[tuple[str, str], tuple[str, str]] = {}
        self._classes: dict[str, tuple[str, str, str]] = {}
        self._added_classes: set[str] = set()
        self._fractions: set[tuple[str, str, str]] = set()

    def check_amounts(self, word: str, message: Any, source: str) -> None:
        """Warns about fractions of extended resources. One unit is 1000 in messages."""
        if word == "pod":
            field, amounts = "spec.requests", message.spec.requests
        elif word == "node":
            field, amounts = "allocatable", message.allocatable
        else:
            return
        # One warning for all pods of a job.
        owner = (word, getattr(message, "group_name", "") or message.name)
        for name, given in amounts.items():
            if given % _UNIT and _is_extended(name) and (*owner, name) not in self._fractions:
                self._fractions.add((*owner, name))
                part = f"{given / _UNIT:g} of a unit"
                self._problems.warn(
                    f"{part} is requested, but Kubernetes allows whole units only"
                    if source
                    else f"{given} is {part}: amounts are in thousandths, and one unit is {_UNIT}",
                    source=source,
                    kind=kind_word(_KINDS[word]),
                    key=f"{message.namespace}/{message.name}" if word == "pod" else message.name,
                    field=f"{field}[{name}]",
                )

    def add(self, word: str, message: Any, source: str) -> None:
        """Adds an object of the request."""
        kind = _KINDS[word]
        if kind not in READ_KINDS:
            self._problems.warn(
                "objects of this kind have no effect in this core",
                source=source,
                kind=word,
                key=message.name,
            )
        self.check_amounts(word, message, source)
        self._note_name(kind, message, source)
        if word == "namespace":
            self._added_namespaces.add(message.name)
        elif word == "priority_class":
            self._added_classes.add(message.name)
        elif word in ("pod", "pod_group"):
            self._note_class(word, message, source)
            key = f"{message.namespace}/{message.name}"
            self._namespaces.setdefault(message.namespace, (source, kind_word(kind), key))
            if word == "pod":
                self._note_scheduler(message, key, source)

    def _note_name(self, kind: int, message: Any, source: str) -> None:
        namespace = getattr(message, "namespace", "")
        if is_name(message.name) and (not namespace or is_name(namespace)):
            return
        group = getattr(message, "group_name", "")
        # One warning for all pods of a job.
        where = (kind_word(kind), f"{namespace}/{group}" if group else message.name)
        self._odd_names.setdefault(where, (f"{namespace}/{message.name}".lstrip("/"), source))

    def _note_class(self, word: str, message: Any, source: str) -> None:
        spec = message.spec if word == "pod" else message
        name = spec.priority_class_name
        if name:
            key = f"{message.namespace}/{message.name}"
            self._classes.setdefault(name, (source, kind_word(_KINDS[word]), key))

    def _note_scheduler(self, pod: Any, key: str, source: str) -> None:
        name = pod.spec.scheduler_name
        if name in self._schedulers or pod.node_name or pod.phase not in _PENDING:
            return
        where = (f"{pod.namespace}/{pod.group_name}" if pod.group_name else key, name)
        first, origin, count = self._foreign.get(where, (key, source, 0))
        self._foreign[where] = (first, origin, count + 1)

    def note_replaced(self, kind: str, key: str, source: str) -> None:
        """Notes that the live cluster has an object with the same name."""
        first, origin, at, count = self._replaced.get(kind, (key, kind, source, 0))
        self._replaced[kind] = (first, origin, at, count + 1)

    def add_warnings(self) -> None:
        """Adds the warnings. Called after all objects were added."""
        for (_, name), (key, source, count) in self._foreign.items():
            which = f"{name!r} is another scheduler" if name else "is empty"
            self._problems.warn(
                f"{which}, so this scheduler would not schedule the pod{_more(count)}",
                source=source,
                kind="Pod",
                key=key,
                field="spec.schedulerName" if source else "spec.scheduler_name",
                allowed=", ".join(self._schedulers),
            )
        for key, kind, source, count in self._replaced.values():
            self._problems.warn(
                f"the cluster has a {kind} with this name{_more(count)}; the result is for a new one "
                "in its place",
                source=source,
                kind=kind,
                key=key,
                field="metadata.name" if source else "name",
            )
        for (kind, _), (key, source) in self._odd_names.items():
            self._problems.warn(
                "an API server would refuse this name",
                source=source,
                kind=kind,
                key=key,
                field="metadata.name" if source else "name",
                allowed="at most 253 lower-case letters, digits, '-' and '.', with a letter or digit "
                "at both ends",
            )
        self._check_namespaces()
        self._check_classes()

    def _check_classes(self) -> None:
        existing = {each.name for each in self._cache.priority_classes}
        existing |= self._added_classes | _OWN_CLASSES
        for name, (source, kind, key) in self._classes.items():
            if name not in existing:
                self._problems.warn(
                    f"the PriorityClass {name!r} is neither in the request nor in the cluster; an API "
                    "server would refuse the pods",
                    source=source,
                    kind=kind,
                    key=key,
                    field="spec.priorityClassName" if source else "priority_class_name",
                )

    def _check_namespaces(self) -> None:
        existing = {namespace.name for namespace in self._cache.namespaces}
        if not existing:
            # The adapter sends no namespaces.
            return
        for namespace, (source, kind, key) in self._namespaces.items():
            if namespace not in existing and namespace not in self._added_namespaces:
                self._problems.warn(
                    f"the namespace {namespace!r} does not exist in the cluster",
                    source=source,
                    kind=kind,
                    key=key,
                    field="metadata.namespace" if source else "namespace",
                )


def is_name(name: str) -> bool:
    """Whether an API server accepts the name."""
    return _NAME.fullmatch(name) is not None


def _more(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""


def _is_extended(name: str) -> bool:
    return name not in _OTHER_UNITS and not name.startswith(_OTHER_PREFIXES)
