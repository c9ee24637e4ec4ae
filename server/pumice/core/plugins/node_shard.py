"""node-shard: refuses nodes outside this scheduler's NodeShard.

A session with hard sharding always runs this plugin, before the plugins of the configuration.
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
    """Refuses nodes that this scheduler has not claimed, or that another scheduler claims too."""

    name: ClassVar[str] = NODE_SHARD
    required: ClassVar[bool] = True

    def __init__(self, options: PluginOptions) -> None:
        pass

    def open(self, session: Session) -> None:
        refused = session.shard.refused
        if refused is None:
            return

        def refusals(_class: TaskClass, _facet: Hashable) -> Iterable[Refusal]:
            return (Refusal(NOT_IN_SHARD, refused, unresolvable=True),)

        shards = session.cache.shards
        session.hooks.class_predicate[self.name] = ClassRule(refusals, lambda: shards.version)
