"""The nodes that this scheduler may use where several schedulers share a cluster by NodeShards.

A scheduler claims nodes in the status of its own NodeShard. It uses a node only while the cluster
shows its own claim and no claim of another scheduler, and it keeps a claim while a bind to the node
is in flight. The API server orders the claims, and every scheduler sees them in that order. So two
schedulers never bind pods to one node at the same time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from pumice.core.cache.store import ObjectStore
from pumice.core.model.topology import NodeShard


class ShardingMode(Enum):
    """Whether nodes outside the shard may be used."""

    NONE = "none"
    # They are refused.
    HARD = "hard"
    # They are tried after the nodes of the shard.
    SOFT = "soft"


@dataclass(frozen=True, slots=True)
class ShardNodes:
    """The nodes of a shard that may be used now, and the status that its NodeShard should have."""

    usable: frozenset[str]
    in_use: tuple[str, ...]
    to_add: tuple[str, ...]
    to_remove: tuple[str, ...]


class ShardClaims:
    """The claims of this scheduler on nodes, and those that it is releasing."""

    def __init__(self, shards: ObjectStore[NodeShard], name: str) -> None:
        self._shards = shards
        self._name = name
        # Nodes that a sent status no longer claims, until the cluster shows that status.
        self.releasing: set[str] = set()

    @property
    def own(self) -> NodeShard | None:
        return self._shards.get(self._name)

    def observe(self, shard: NodeShard) -> None:
        """Notes a new version of a NodeShard."""
        if shard.name == self._name:
            self.releasing.intersection_update(shard.nodes_in_use)

    def sent(self, in_use: Collection[str]) -> None:
        """Notes the nodes of a status that was sent. A release is not withdrawn before it is shown."""
        if self.own is not None:
            self.releasing.update(set(self.own.nodes_in_use).difference(in_use))

    def nodes(self, own: NodeShard, busy: Collection[str]) -> ShardNodes:
        """The nodes of this scheduler; ``busy`` are nodes with a bind in flight.

        Of two schedulers that claim a node at the same moment, the one whose shard's name sorts
        first keeps its claim.
        """
        desired, claimed = set(own.nodes_desired), set(own.nodes_in_use) - self.releasing
        rivals = self._rivals()
        wanted = {
            node
            for node in desired - self.releasing
            if node not in rivals or (node in claimed and own.name < rivals[node])
        }
        in_use = wanted | claimed.intersection(busy)
        return ShardNodes(
            frozenset(node for node in desired & claimed if node not in rivals),
            tuple(sorted(in_use)),
            tuple(sorted(desired - in_use)),
            tuple(sorted(in_use - desired)),
        )

    def _rivals(self) -> dict[str, str]:
        """By node, the first name of the other shards whose schedulers claim it."""
        rivals: dict[str, str] = {}
        for other in self._shards:
            if other.name != self._name:
                for node in other.nodes_in_use:
                    rivals.setdefault(node, other.name)
        return rivals
