"""The watches of the sharding controller, and the load of nodes that it keeps."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CONFIG_MAPS, NODE_SHARDS, NODES, PODS
from pumice.controllers.runtime.acts import Plan, Reference
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.watches import Change, Watch
from pumice.controllers.sharding.configuration import KEY, Configuration, read, read_flags
from pumice.controllers.sharding.policies import NodeFacts
from pumice.controllers.sharding.reconcile import Seen, reconcile
from pumice.controllers.sharding.types import Node, NodeShard, Pod, ShardingConfigMap

# All NodeShards are reconciled together.
_ALL: Final[Key] = ("", "shards")
# Changes of nodes within this time are answered together.
TOGETHER_MS: Final = 200
# The nodes are divided before the period ends when the load of one moved by more.
MOVED_SHARE: Final = 0.5

WATCHED_SHARDS: Final = Watch(NODE_SHARDS, NodeShard)
WATCHED_NODES: Final = Watch(NODES, Node)
WATCHED_PODS: Final = Watch(
    PODS,
    Pod,
    field_selector="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
)


class ShardingController:
    """Divides the nodes among schedulers, by the CPU that pods request on them."""

    name = "sharding-controller"

    def __init__(self, options: ControllerOptions) -> None:
        given = options.sharding
        self._map = (given.namespace, given.name)
        self._given = given
        self._configuration = read_flags(given.schedulers)
        # The text that was read last, and what is wrong with it.
        self._text: str | None = None
        self._problem = ""
        self._watched_map = Watch(
            CONFIG_MAPS, ShardingConfigMap, field_selector=f"metadata.name={given.name}"
        )
        # Requested CPU and memory, and the number of pods, by node.
        self._requested: dict[str, tuple[int, int, int]] = {}
        # Shares of CPU and memory by node, when the nodes were last divided.
        self._divided: dict[str, tuple[float, float]] = {}
        self._divided_ms: int | None = None

    @property
    def watches(self) -> Sequence[Watch[Any]]:
        watches: tuple[Watch[Any], ...] = (WATCHED_SHARDS, WATCHED_NODES, WATCHED_PODS)
        return (*watches, self._watched_map) if self._given.name else watches

    # Keys.

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        if change.watch == WATCHED_PODS:
            is_due = self._see_pod(change, caches)
        elif change.watch == WATCHED_NODES:
            is_due = self._follows_nodes and _is_other_node(change)
        elif change.watch == WATCHED_SHARDS:
            is_due = (
                change.old is None
                or change.new is None
                or change.old.spec.nodes_desired != change.new.spec.nodes_desired
            )
        else:
            is_due = change.seen.metadata.key == self._map
        return (_ALL,) if is_due or self._divided_ms is None else ()

    @property
    def _follows_nodes(self) -> bool:
        own = self._configuration.follows_nodes
        return self._given.follows_nodes if own is None else own

    def _see_pod(self, change: Change[Pod], caches: Caches) -> bool:
        """Adds up the requests of a node's pods; returns whether the load of a node has moved far."""
        nodes = []
        for pod, sign in ((change.old, -1), (change.new, 1)):
            if pod is not None and pod.spec.node_name:
                self._add(pod.spec.node_name, *pod.requested, sign)
                nodes.append(pod.spec.node_name)
        if not self._follows_nodes:
            return False
        return any(self._has_moved(name, caches) for name in nodes)

    def _add(self, node: str, cpu: int, memory: int, sign: int) -> None:
        held = self._requested.get(node, (0, 0, 0))
        count = held[2] + sign
        if count:
            self._requested[node] = (held[0] + sign * cpu, held[1] + sign * memory, count)
        else:
            self._requested.pop(node, None)

    def _has_moved(self, name: str, caches: Caches) -> bool:
        node = caches[WATCHED_NODES].get("", name)
        before = self._divided.get(name)
        if node is None:
            return False
        if before is None:
            return True
        now = self._shares(node)
        return any(abs(a - b) > MOVED_SHARE for a, b in zip(now, before, strict=True))

    def _shares(self, node: Node) -> tuple[float, float]:
        """Requested shares of CPU and memory, at most 1 each."""
        capacity = node.status.capacity.nanos
        cpu, memory, _ = self._requested.get(node.metadata.name, (0, 0, 0))
        return _share(cpu, capacity[0]), _share(memory, capacity[1])

    # Looking.

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | None:
        is_new = self._read(caches)
        wait_ms = 0 if self._divided_ms is None else self._divided_ms + TOGETHER_MS - now_ms
        if not is_new and 0 < wait_ms <= TOGETHER_MS:
            return Seen(self._configuration, (), {}, 0.0, wait_ms / 1000)
        nodes = [one for one in caches[WATCHED_NODES] if not one.metadata.is_terminating]
        self._divided = {one.metadata.name: self._shares(one) for one in nodes}
        self._divided_ms = now_ms
        own = self._configuration.period_seconds
        return Seen(
            self._configuration,
            [
                NodeFacts(name, self._divided[name][0], one.metadata.labels or {})
                for one in nodes
                for name in (one.metadata.name,)
            ],
            {one.metadata.name: one for one in caches[WATCHED_SHARDS]},
            self._given.period_seconds if own is None else own,
            problem=self._problem if is_new else "",
            about=Reference(CONFIG_MAPS, *self._map, self._uid(caches)),
        )

    def _uid(self, caches: Caches) -> str:
        held = caches[self._watched_map].get(*self._map) if self._given.name else None
        return held.metadata.uid if held is not None else ""

    def _read(self, caches: Caches) -> bool:
        """Reads the ConfigMap if it changed. A wrong one, or none, leaves the last one in force."""
        held = caches[self._watched_map].get(*self._map) if self._given.name else None
        text = None if held is None else (held.data or {}).get(KEY, "")
        if text is None or text == self._text:
            return False
        is_first, self._text = self._text is None, text
        try:
            self._configuration, self._problem = read(text), ""
        except ValueError as error:
            self._problem = str(error)
            if is_first:
                # The flags would take nodes from schedulers of the wrong configuration.
                self._configuration = Configuration()
        return True

    def reconcile(self, seen: Seen) -> Plan:
        return reconcile(seen)


def _share(requested: int, capacity: int) -> float:
    return min(1.0, requested / capacity) if capacity > 0 else 0.0


def _is_other_node(change: Change[Node]) -> bool:
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (
        before.labels != after.labels
        or before.is_terminating != after.is_terminating
        or old.status.capacity != new.status.capacity
    )
