"""Changes of queues, nodes, quotas and priorities for a what-if run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pumice.manifests.amounts import amounts, milli_amounts
from pumice.manifests.errors import FieldError
from pumice.v1.group_pb2 import PriorityClass, Queue, QueueState, ResourceQuota
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.pod_pb2 import Pod

_FORMS = {
    "queues": "queues/NAME/FIELD",
    "nodes": "nodes/NAME/FIELD",
    "quotas": "quotas/NAMESPACE/NAME/RESOURCE",
    "priorities": "priorities/NAME",
}
_QUEUE_AMOUNTS = ("capability", "deserved", "guarantee")
_QUEUE_FIELDS = (*(f"{name}/RESOURCE" for name in _QUEUE_AMOUNTS), "weight", "priority", "parent")
_QUEUE_FIELDS += ("reclaimable", "state")
_NODE_FIELDS = ("allocatable/RESOURCE", "labels/KEY", "unschedulable")
_INT32 = range(-(2**31), 2**31)


class OverrideError(ValueError):
    """An invalid override. The message names it and the allowed values."""


@dataclass(frozen=True, slots=True)
class Override:
    """A value for one field of the objects that match a pattern."""

    # ``queues``, ``nodes``, ``quotas`` or ``priorities``.
    kind: str
    # A name, or a pattern with ``*``, ``?`` and ``[]``; for quotas ``namespace/name``.
    pattern: str
    # For example ``weight`` or ``capability/cpu``.
    field: str
    value: str

    def __str__(self) -> str:
        path = "/".join(part for part in (self.kind, self.pattern, self.field) if part)
        return f"{path}={self.value}"

    @classmethod
    def read(cls, text: str) -> Override:
        """Reads ``PATH=VALUE``. Raises OverrideError."""
        path, equals, value = text.partition("=")
        kind, _, rest = path.partition("/")
        if not equals or kind not in _FORMS or not rest:
            forms = ", ".join(f"{form}=VALUE" for form in _FORMS.values())
            raise OverrideError(f"{text!r}: invalid override; allowed: {forms}")
        parts = rest.split("/", {"quotas": 2, "priorities": 0}.get(kind, 1))
        if len(parts) < {"quotas": 3, "priorities": 1}.get(kind, 2):
            raise OverrideError(f"{text!r}: expected {_FORMS[kind]}=VALUE")
        if kind == "quotas":
            parts = [f"{parts[0]}/{parts[1]}", parts[2]]
        made = cls(kind, parts[0], parts[1] if len(parts) > 1 else "", value)
        made.check()
        return made

    def check(self) -> None:
        """Raises OverrideError for an unknown field or an invalid value."""
        made: dict[str, Callable[[], object]] = {
            "queues": lambda: _change_queue(Queue(), self),
            "nodes": lambda: _change_node(Node(), self),
            "quotas": lambda: _change_quota(ResourceQuota(), self),
            "priorities": lambda: _integer(self),
        }
        made[self.kind]()

    def matches(self, name: str) -> bool:
        return fnmatchcase(name, self.pattern)


@dataclass(frozen=True, slots=True)
class Overrides:
    """All changes of the cluster in a what-if run. Nodes are added and removed at its beginning."""

    fields: tuple[Override, ...] = ()
    # Patterns of names.
    removed_nodes: tuple[str, ...] = ()
    # The name of a node, and the number of its copies.
    added_nodes: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(
        cls,
        fields: Mapping[str, Any] | Iterable[str] = (),
        remove_nodes: Iterable[str] = (),
        add_nodes: Mapping[str, int] | None = None,
    ) -> Overrides:
        """Reads ``PATH=VALUE`` strings, or a mapping of paths to values. Raises OverrideError."""
        texts = (
            [f"{path}={_text(value)}" for path, value in fields.items()]
            if isinstance(fields, Mapping)
            else fields
        )
        added = tuple((add_nodes or {}).items())
        for name, count in added:
            if not str(count).isdigit() or not count:
                raise OverrideError(
                    f"copies of node {name}: {count!r} given; allowed: a number of 1 or more"
                )
        return cls(tuple(map(Override.read, texts)), tuple(remove_nodes), added)

    def __bool__(self) -> bool:
        return bool(self.fields or self.removed_nodes or self.added_nodes)

    @property
    def changes_nodes(self) -> bool:
        """Whether nodes are added or removed."""
        return bool(self.removed_nodes or self.added_nodes)

    def removes(self, node: str) -> bool:
        return any(fnmatchcase(node, pattern) for pattern in self.removed_nodes)

    def change(self, held: ClusterObject) -> bool:
        """Changes an object in place; returns whether an override matches it."""
        match held.WhichOneof("object"):
            case "queue":
                return self._apply("queues", held.queue.name, held.queue, _change_queue)
            case "node":
                return self._apply("nodes", held.node.name, held.node, _change_node)
            case "resource_quota":
                key = f"{held.resource_quota.namespace}/{held.resource_quota.name}"
                return self._apply("quotas", key, held.resource_quota, _change_quota)
            case "priority_class":
                named = held.priority_class
                return self._apply("priorities", named.name, named, _change_priority)
            case "pod" if held.pod.spec.priority_class_name:
                name = held.pod.spec.priority_class_name
                return self._apply("priorities", name, held.pod, _change_pod)
            case _:
                return False

    def _apply(
        self, kind: str, name: str, held: Any, change: Callable[[Any, Override], None]
    ) -> bool:
        found = False
        for override in self.fields:
            if override.kind == kind and override.matches(name):
                change(held, override)
                found = True
        return found

    def why_not_applicable(self, names: Mapping[str, Iterable[str]]) -> str:
        """A message about an override that matches none of ``names``; empty if all match."""
        nodes = [("nodes", pattern) for pattern in self.removed_nodes]
        nodes += [("nodes", name) for name, _ in self.added_nodes]
        for kind, pattern in [*((one.kind, one.pattern) for one in self.fields), *nodes]:
            known = sorted(names.get(kind, ()))
            if not any(fnmatchcase(name, pattern) for name in known):
                shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
                return f"{kind}/{pattern}: matches no object of the recording; it has {shown or 'none'}"
        return ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _integer(override: Override, low: int = _INT32[0], high: int = _INT32[-1]) -> int:
    try:
        value = int(override.value)
    except ValueError:
        value = high + 1
    if not low <= value <= high:
        raise OverrideError(f"{override}: expected a whole number from {low} to {high}")
    return value


def _boolean(override: Override) -> bool:
    if override.value not in ("true", "false"):
        raise OverrideError(f"{override}: expected true or false")
    return override.value == "true"


def _amounts(
    override: Override, resource: str, read: Callable[[Mapping[str, str], str], dict[str, int]]
) -> dict[str, int]:
    try:
        found = read({resource: override.value}, override.field)
    except FieldError as error:
        raise OverrideError(f"{override}: {error}") from None
    if not found:
        raise OverrideError(f"{override}: {resource} is not a resource that scheduling uses")
    return found


def _change_queue(queue: Queue, override: Override) -> None:
    field, _, resource = override.field.partition("/")
    if field in _QUEUE_AMOUNTS and resource:
        getattr(queue, field).amounts.update(_amounts(override, resource, amounts))
    elif override.field == "weight":
        queue.weight = _integer(override, 1, 65535)
    elif override.field == "priority":
        queue.priority = _integer(override)
    elif override.field == "parent":
        queue.parent = override.value
    elif override.field == "reclaimable":
        queue.reclaimable = _boolean(override)
    elif override.field == "state":
        states = {"Open": QueueState.QUEUE_STATE_OPEN, "Closed": QueueState.QUEUE_STATE_CLOSED}
        if override.value not in states:
            raise OverrideError(f"{override}: expected Open or Closed")
        queue.state = states[override.value]
    else:
        raise OverrideError(f"{override}: unknown field; allowed: {', '.join(_QUEUE_FIELDS)}")


def _change_node(node: Node, override: Override) -> None:
    field, _, key = override.field.partition("/")
    if field == "allocatable" and key:
        found = _amounts(override, key, amounts)
        node.allocatable.update(found)
        for name, amount in found.items():
            node.capacity[name] = max(node.capacity.get(name, 0), amount)
    elif field == "labels" and key:
        node.labels[key] = override.value
    elif override.field == "unschedulable":
        node.unschedulable = _boolean(override)
    else:
        raise OverrideError(f"{override}: unknown field; allowed: {', '.join(_NODE_FIELDS)}")


def _change_quota(quota: ResourceQuota, override: Override) -> None:
    quota.hard_milli.update(_amounts(override, override.field, milli_amounts))


def _change_priority(named: PriorityClass, override: Override) -> None:
    named.value = _integer(override)


def _change_pod(pod: Pod, override: Override) -> None:
    value = _integer(override)
    if pod.HasField("task_priority") and pod.task_priority == pod.priority:
        pod.task_priority = value
    pod.priority = value
