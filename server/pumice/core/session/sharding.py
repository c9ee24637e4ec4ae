"""The nodes of this scheduler's shard in one session, and the status of its NodeShard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.shards import ShardingMode
from pumice.core.configuration import PluginOptions
from pumice.core.decisions import NodeShardStatusChanged
from pumice.core.model.fit import Mask
from pumice.core.model.status import TaskStatus

if TYPE_CHECKING:
    from pumice.core.session.session import Session

# Volcano's text.
NOT_IN_SHARD = "node isn't in scheduler node shard"
# The plugin of every session with hard sharding.
NODE_SHARD = "node-shard"


def implied_tiers(mode: ShardingMode) -> tuple[tuple[PluginOptions, ...], ...]:
    """The tiers that sharding adds before those of the configuration."""
    return ((PluginOptions(NODE_SHARD),),) if mode is ShardingMode.HARD else ()


class SessionShard:
    """Which nodes belong to the shard; without sharding, all of them."""

    def __init__(self, session: Session) -> None:
        cache = session.cache
        self._mode = cache.settings.sharding_mode
        self._rows: Mask | None = None
        self._own = cache.shard_claims.own
        # Whether nodes of the shard are tried first, and others after them.
        self.is_soft = self._mode is ShardingMode.SOFT
        if self._mode is ShardingMode.NONE:
            return
        self._rows = np.zeros(len(session.table), dtype=np.bool_)
        if self._own is None:
            # As in Volcano, a scheduler without a NodeShard has no nodes.
            return
        busy = {
            assumed.node_name
            for assumed in cache.assumptions.all_open()
            if assumed.status is TaskStatus.BINDING
        }
        self._nodes = cache.shard_claims.nodes(self._own, busy)
        rows = (session.table.row_of(name) for name in sorted(self._nodes.usable))
        self._rows[[row for row in rows if row is not None]] = True

    @property
    def refused(self) -> Mask | None:
        """The nodes that hard sharding refuses; None: it refuses no node."""
        if self._rows is None or self._mode is not ShardingMode.HARD:
            return None
        return ~self._rows

    def groups(self, nodes: Mask) -> list[Mask]:
        """Nodes in the order in which they are tried: with soft sharding, the shard's own first."""
        if self._rows is None or not self.is_soft:
            return [nodes]
        return [nodes & self._rows, nodes & ~self._rows]

    def first(self, nodes: Mask) -> Mask:
        """The first group of nodes that is not empty."""
        return next((group for group in self.groups(nodes) if group.any()), nodes)

    def status_changes(self) -> list[NodeShardStatusChanged]:
        """The status of the NodeShard, if it differs from the stored one."""
        own = self._own
        if self._rows is None or own is None:
            return []
        nodes = self._nodes
        shown = (own.nodes_in_use, own.nodes_to_add, own.nodes_to_remove)
        if (nodes.in_use, nodes.to_add, nodes.to_remove) == tuple(
            tuple(sorted(set(names))) for names in shown
        ):
            return []
        return [
            NodeShardStatusChanged(own.name, own.uid, nodes.in_use, nodes.to_add, nodes.to_remove)
        ]
