"""A node as the table holds it: the object, the tasks on it, what it offers, and its row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pumice.core.cache.tasks import Task
from pumice.core.model.node import Node
from pumice.core.model.resources import Resources

Amounts = tuple[tuple[str, int], ...]
# A CSI driver that publishes no limit.
_NO_LIMIT = 2**31 - 1


class NodeOffer(NamedTuple):
    """What can be allocated on a node: its own, oversubscription, CSI limits and devices."""

    own: Amounts = ()
    oversubscribed_milli_cpu: int = 0
    oversubscribed_memory_bytes: int = 0
    csi_limits: Amounts = ()
    # Extended resources that stand for devices which the node reaches.
    devices: Amounts = ()

    @classmethod
    def of(cls, node: Node | None, csi_limits: Amounts, devices: Amounts) -> NodeOffer:
        if node is None:
            return cls(csi_limits=csi_limits, devices=devices)
        more = (node.oversubscription_milli_cpu, node.oversubscription_memory_bytes)
        return cls(node.allocatable, *more, csi_limits, devices)

    def names(self) -> tuple[str, ...]:
        """The names of all resources, even with an amount of zero, each once."""
        names = [name for name, _ in self.own]
        if self.csi_limits or self.devices:
            names += [csi_resource(driver) for driver, _ in self.csi_limits]
            names += [name for name, _ in self.devices]
        return tuple(dict.fromkeys(names))

    def total(self) -> Resources:
        total = Resources.of(self.own)
        total.milli_cpu += self.oversubscribed_milli_cpu
        total.memory += self.oversubscribed_memory_bytes
        for driver, limit in self.csi_limits:
            total.scalars[csi_resource(driver)] = _NO_LIMIT if limit < 0 else limit
        for name, amount in self.devices:
            # The amount that a device plugin reports takes precedence.
            total.scalars[name] = total.scalars.get(name) or amount
        return total


NO_OFFER = NodeOffer()


@dataclass(slots=True, eq=False, repr=False)
class NodeEntry:
    """A node and the tasks on it; tasks may be known before the node is."""

    name: str
    node: Node | None = None
    # By uid: a pod may arrive before the deletion of an earlier pod with the same name.
    tasks: dict[str, Task] = field(default_factory=dict)
    csi_limits: Amounts = ()
    # Extended resources that stand for devices which the node reaches.
    device_offers: Amounts = ()
    # What the table counts for this node; nothing as long as the node is not known.
    offer: NodeOffer = NO_OFFER
    # -1: the node is not in the arrays yet; its tasks are counted when it gets a row.
    row: int = -1

    @property
    def known_node(self) -> Node:
        """The node; only entries without a row have none."""
        assert self.node is not None
        return self.node

    def allocatable(self) -> Resources:
        """What can be allocated: the node's own, oversubscription, CSI limits and devices."""
        return self.offer.total()

    def tasks_in_order(self) -> list[Task]:
        return sorted(self.tasks.values(), key=lambda task: task.order_key)


def csi_resource(driver: str) -> str:
    return f"attachable-volumes-csi-{driver.replace('/', '-')}"
