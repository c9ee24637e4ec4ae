"""Which scheduler has which nodes, and the writes that make it so.

Schedulers choose in the order of the configuration; a node belongs to one of them at most. Writes
come in two stages, so that a node that moves is at no time in two NodeShards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pumice.controllers.resources import CONFIG_MAPS, NODE_SHARDS
from pumice.controllers.runtime.acts import Act, Create, Delete, Emit, Patch, Plan, Reference
from pumice.controllers.sharding.configuration import Configuration, SchedulerPolicies
from pumice.controllers.sharding.policies import NodeFacts
from pumice.controllers.sharding.types import NodeShard

# NodeShards stay as they are while fewer than this part of their nodes would be exchanged.
EXCHANGED_PART: Final = 10


@dataclass(frozen=True, slots=True)
class Seen:
    """The configuration in force, the nodes, and the NodeShards that there are."""

    configuration: Configuration
    nodes: Sequence[NodeFacts]
    shards: Mapping[str, NodeShard]
    period_seconds: float
    # Too early: the nodes are divided again after this time.
    wait_seconds: float = 0.0
    # A configuration that cannot be used, if it is new, and the ConfigMap that has it.
    problem: str = ""
    about: Reference = field(default_factory=lambda: Reference(CONFIG_MAPS, "", "", ""))


def reconcile(seen: Seen) -> Plan:
    """Divides the nodes. Without a valid configuration, NodeShards stay as they are."""
    if seen.wait_seconds > 0:
        return Plan(again_seconds=seen.wait_seconds)
    events: list[Act] = []
    if seen.problem:
        text = f"{seen.problem}; the configuration before it stays in force"
        events.append(Emit(seen.about, "InvalidConfiguration", text, warning=True))
    stages: list[Sequence[Act]] = [events]
    if seen.configuration.schedulers:
        stages += _writes(seen, divided(seen.configuration, seen.nodes))
    return Plan(tuple(tuple(stage) for stage in stages if stage), again_seconds=seen.period_seconds)


def divided(configuration: Configuration, nodes: Sequence[NodeFacts]) -> dict[str, list[str]]:
    """Names of nodes by scheduler, the best of each first."""
    found: dict[str, list[str]] = {}
    free = sorted(nodes, key=lambda node: node.name)
    for scheduler in configuration.schedulers:
        chosen = [node.name for node in _chosen(scheduler, free)]
        found[scheduler.name] = chosen
        taken = frozenset(chosen)
        free = [node for node in free if node.name not in taken]
    return found


def _chosen(scheduler: SchedulerPolicies, free: Sequence[NodeFacts]) -> Sequence[NodeFacts]:
    policies = scheduler.policies
    found: Sequence[NodeFacts] = [
        node for node in free if all(one.policy.accepts(node) for one in policies)
    ]
    scores = {
        node.name: sum(one.weight * one.policy.score(node) for one in policies) for node in found
    }
    found = sorted(found, key=lambda node: -scores[node.name])
    for one in policies:
        found = one.policy.limited(found)
    return found


def _writes(seen: Seen, wanted: Mapping[str, list[str]]) -> list[Sequence[Act]]:
    shards = {
        name: shard for name, shard in seen.shards.items() if not shard.metadata.is_terminating
    }
    leftover: list[Act] = [
        Delete(NODE_SHARDS, "", name, shard.metadata.uid)
        for name, shard in sorted(shards.items())
        if name not in wanted
    ]
    if not any(_differs(shards.get(name), nodes) for name, nodes in wanted.items()):
        return [leftover]
    holder = {node: name for name, shard in shards.items() for node in shard.nodes}
    first: list[Act] = []
    second: list[Act] = []
    for name, nodes in wanted.items():
        shard = shards.get(name)
        held = [] if shard is None else shard.nodes
        kept = [node for node in nodes if holder.get(node, name) == name]
        if set(held) - set(nodes) and set(kept) != set(nodes):
            first.append(_write(name, shard, kept))
            second.append(_write(name, shard, nodes))
        elif shard is None or set(held) != set(nodes):
            (second if set(kept) != set(nodes) else first).append(_write(name, shard, nodes))
    return [[*leftover, *first], second]


def _differs(shard: NodeShard | None, nodes: Sequence[str]) -> bool:
    if shard is None or len(shard.nodes) != len(nodes):
        return True
    exchanged = len(set(nodes) - set(shard.nodes))
    return exchanged >= max(1, len(nodes) // EXCHANGED_PART)


def _write(name: str, shard: NodeShard | None, nodes: Sequence[str]) -> Act:
    spec = {"nodesDesired": list(nodes)}
    if shard is not None:
        return Patch(NODE_SHARDS, "", name, shard.metadata.uid, {"spec": spec})
    body = {
        "apiVersion": NODE_SHARDS.api_version,
        "kind": NODE_SHARDS.name,
        "metadata": {"name": name},
        "spec": spec,
    }
    return Create(NODE_SHARDS, body)
