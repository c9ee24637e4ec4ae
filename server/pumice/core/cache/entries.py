"""A node as the table holds it: the object, the tasks on it, and its row."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.core.cache.tasks import Task
from pumice.core.model.integers import add_amount
from pumice.core.model.node import Node
from pumice.core.model.resources import Resources

# A CSI driver that publishes no limit.
_NO_LIMIT = 2**31 - 1


@dataclass(slots=True, eq=False, repr=False)
class NodeEntry:
    """A node and the tasks on it; tasks may be known before the node is."""

    name: str
    node: Node | None = None
    # By uid: a pod may arrive before the deletion of an earlier pod with the same name.
    tasks: dict[str, Task] = field(default_factory=dict)
    csi_limits: tuple[tuple[str, int], ...] = ()
    # Extended resources that stand for devices which the node reaches.
    device_offers: tuple[tuple[str, int], ...] = ()
    # The resources that the table has counted for this node.
    counted_names: tuple[str, ...] = ()
    # -1: the node is not in the arrays yet; its tasks are counted when it gets a row.
    row: int = -1

    def allocatable(self) -> Resources:
        """What can be allocated: the node's own, oversubscription, CSI limits and devices."""
        if self.node is None:
            return Resources()
        total = Resources.of(self.node.allocatable)
        total.milli_cpu += self.node.oversubscription_milli_cpu
        total.memory += self.node.oversubscription_memory_bytes
        for driver, limit in self.csi_limits:
            total.scalars[csi_resource(driver)] = _NO_LIMIT if limit < 0 else limit
        for name, amount in self.device_offers:
            # The amount that a device plugin reports takes precedence.
            total.scalars[name] = total.scalars.get(name) or amount
        return total

    def count_names(self, counts: dict[str, int]) -> bool:
        """Updates how many nodes list each resource; true: a resource is new, or gone."""
        names: tuple[str, ...] = ()
        if self.node is not None:
            names = offered_names(self.node, self.csi_limits, self.device_offers)
        if names == self.counted_names:
            return False
        before = set(counts)
        for name in names:
            add_amount(counts, name, 1)
        for name in self.counted_names:
            add_amount(counts, name, -1)
        self.counted_names = names
        return counts.keys() != before

    def offer(self) -> tuple[object, ...]:
        """The values that ``allocatable`` depends on."""
        node = self.node
        if node is None:
            return ()
        more = (node.oversubscription_milli_cpu, node.oversubscription_memory_bytes)
        return (node.allocatable, *more, self.csi_limits, self.device_offers)

    def tasks_in_order(self) -> list[Task]:
        return sorted(self.tasks.values(), key=lambda task: task.order_key)


def offered_names(
    node: Node | None,
    limits: tuple[tuple[str, int], ...],
    devices: tuple[tuple[str, int], ...] = (),
) -> tuple[str, ...]:
    """The resources of a node, of the limits of its CSI drivers and of devices, each once."""
    own = (name for name, _ in node.allocatable) if node is not None else ()
    attached = (csi_resource(driver) for driver, _ in limits)
    return tuple(dict.fromkeys((*own, *attached, *(name for name, _ in devices))))


def csi_resource(driver: str) -> str:
    return f"attachable-volumes-csi-{driver.replace('/', '-')}"
