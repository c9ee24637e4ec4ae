"""node-shard: refuses nodes outside this scheduler's NodeShard.

Every session with hard sharding has it, before all other plugins; no configuration names it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar

from pumice.core.cache.tasks import TaskClass
from pumice.core.configuration import PluginOptions
from pumice.core.model.fit import Refusal
from pumice.core.session.policies import ClassRule
from pumice.core.session.session import Session
from pumice.core.session.sharding import NODE_SHARD, NOT_IN_SHARD


class NodeShardPlugin:
    """Keeps pods on the nodes that this scheduler has claimed and no other scheduler claims."""

    name: ClassVar[str] = NODE_SHARD
    required: ClassVar[bool] = True

    def __init__(self, options: PluginOptions) -> None:
        pass

    def open(self, session: Session) -> None:
        refused = session.shard.refused
        if refused is None:
            return

        def refuse(class_: TaskClass, facet: Hashable) -> Iterable[Refusal]:
            return (Refusal(NOT_IN_SHARD, refused, unresolvable=True),)

        shards = session.cache.shards
        session.hooks.class_predicate[self.name] = ClassRule(refuse, lambda: shards.version)
