"""The watches of the sharding controller, and what it observes."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CONFIG_MAPS, NODE_SHARDS, NODES, PODS
from pumice.controllers.runtime.acts import Plan, Reference
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import ConfigMap, Key
from pumice.controllers.runtime.watches import Change, Watch
from pumice.controllers.sharding.configuration import KEY, Configuration, read, read_flags
from pumice.controllers.sharding.policies import NodeFacts
from pumice.controllers.sharding.reconcile import Observed, reconcile
from pumice.controllers.sharding.types import Node, NodeShard, Pod

# The only key: all NodeShards are reconciled together.
_ALL: Final[Key] = ("", "shards")
# Shortest time between two divisions of the nodes.
TOGETHER_MS: Final = 200
# The nodes are divided before the period ends if the requested share of a node changed by more.
MOVED_SHARE: Final = 0.5

WATCHED_SHARDS: Final = Watch(NODE_SHARDS, NodeShard)
WATCHED_NODES: Final = Watch(NODES, Node)
WATCHED_PODS: Final = Watch(
    PODS,
    Pod,
    field_selector="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
)


class ShardingController(Controller[Observed]):
    """Divides the nodes among schedulers, by the CPU that pods request on the nodes."""

    name = "sharding-controller"

    def __init__(self, options: ControllerOptions) -> None:
        flags = self._flags = options.sharding
        self._configuration = read_flags(flags.schedulers)
        # The text of the ConfigMap that was read last, and what is wrong with it.
        self._text: str | None = None
        self._problem = ""
        self._config_map_key = (flags.namespace, flags.name)
        self._watched_map = Watch(
            CONFIG_MAPS, ConfigMap, field_selector=f"metadata.name={flags.name}"
        )
        watches: tuple[Watch[Any], ...] = (WATCHED_SHARDS, WATCHED_NODES, WATCHED_PODS)
        self.watches: Sequence[Watch[Any]] = (
            (*watches, self._watched_map) if flags.name else watches
        )
        # Requested CPU and memory, and the number of pods, of each node.
        self._requested: dict[str, tuple[int, int, int]] = {}
        # Requested shares of CPU and memory of each node, when the nodes were last divided.
        self._divided: dict[str, tuple[float, float]] = {}
        self._divided_ms: int | None = None

    def track(self, change: Change[Any], caches: Caches) -> None:
        """Adjusts the requests on the node of a pod."""
        if change.watch == WATCHED_PODS:
            for pod, sign in ((change.old, -1), (change.new, 1)):
                if pod is not None and pod.spec.node_name:
                    cpu, memory = pod.requested
                    self._add(pod.spec.node_name, cpu, memory, sign)

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        if change.watch == WATCHED_PODS:
            is_due = self._follows_nodes and any(
                self._has_moved(pod.spec.node_name, caches)
                for pod in (change.old, change.new)
                if pod is not None and pod.spec.node_name
            )
        elif change.watch == WATCHED_NODES:
            is_due = self._follows_nodes and _node_changed(change)
        elif change.watch == WATCHED_SHARDS:
            is_due = (
                change.old is None
                or change.new is None
                or change.old.spec.nodes_desired != change.new.spec.nodes_desired
            )
        else:
            is_due = change.latest.metadata.key == self._config_map_key
        return (_ALL,) if is_due or self._divided_ms is None else ()

    @property
    def _follows_nodes(self) -> bool:
        configured = self._configuration.follows_nodes
        return self._flags.follows_nodes if configured is None else configured

    def _add(self, node: str, cpu: int, memory: int, sign: int) -> None:
        old_cpu, old_memory, old_count = self._requested.pop(node, (0, 0, 0))
        count = old_count + sign
        if count:
            self._requested[node] = (old_cpu + sign * cpu, old_memory + sign * memory, count)

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
        """The requested shares of CPU and memory, at most 1 each."""
        capacity = node.status.capacity.nanos
        cpu, memory, _ = self._requested.get(node.metadata.name, (0, 0, 0))
        return _share(cpu, capacity[0]), _share(memory, capacity[1])

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | None:
        is_new = self._read(caches)
        wait_ms = 0 if self._divided_ms is None else self._divided_ms + TOGETHER_MS - now_ms
        if not is_new and 0 < wait_ms <= TOGETHER_MS:
            return Observed(self._configuration, (), {}, 0.0, wait_ms / 1000)
        nodes = [one for one in caches[WATCHED_NODES] if not one.metadata.is_terminating]
        self._divided = {one.metadata.name: self._shares(one) for one in nodes}
        self._divided_ms = now_ms
        configured = self._configuration.period_seconds
        config_map = self._config_map(caches)
        return Observed(
            self._configuration,
            [
                NodeFacts(name, self._divided[name][0], one.metadata.labels or {})
                for one in nodes
                for name in (one.metadata.name,)
            ],
            {one.metadata.name: one for one in caches[WATCHED_SHARDS]},
            self._flags.period_seconds if configured is None else configured,
            problem=self._problem if is_new else "",
            about=Reference.of(CONFIG_MAPS, config_map.metadata) if config_map else None,
        )

    def _config_map(self, caches: Caches) -> ConfigMap | None:
        if not self._flags.name:
            return None
        return caches[self._watched_map].get(*self._config_map_key)

    def _read(self, caches: Caches) -> bool:
        """Reads the ConfigMap if it changed. Without a valid one, the last configuration stays in use."""
        config_map = self._config_map(caches)
        text = None if config_map is None else (config_map.data or {}).get(KEY, "")
        if text is None or text == self._text:
            return False
        is_first, self._text = self._text is None, text
        try:
            self._configuration, self._problem = read(text), ""
        except ValueError as error:
            self._problem = str(error)
            if is_first:
                # The schedulers of the flags may differ from those of the invalid configuration.
                self._configuration = Configuration()
        return True

    def reconcile(self, observed: Observed) -> Plan:
        return reconcile(observed)


def _share(requested: int, capacity: int) -> float:
    return min(1.0, requested / capacity) if capacity > 0 else 0.0


def _node_changed(change: Change[Node]) -> bool:
    """Whether a node was added or deleted, or changed in a way that a policy may consider."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (
        before.labels != after.labels
        or before.is_terminating != after.is_terminating
        or old.status.capacity != new.status.capacity
    )
