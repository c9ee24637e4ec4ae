"""Divides the nodes among schedulers, and writes their NodeShards.

Schedulers choose nodes in the order of the configuration; a node belongs to at most one scheduler.
There are two stages of writes, so that a node that moves is never in two NodeShards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.controllers.resources import NODE_SHARDS
from pumice.controllers.runtime.acts import Act, Create, Delete, Emit, Patch, Plan, Reference
from pumice.controllers.runtime.objects import new_object
from pumice.controllers.sharding.configuration import Configuration, SchedulerPolicies
from pumice.controllers.sharding.policies import NodeFacts
from pumice.controllers.sharding.types import NodeShard

# NodeShards stay unchanged while less than a tenth of their nodes would be exchanged.
EXCHANGED_PART: Final = 10


@dataclass(frozen=True, slots=True)
class Observed:
    """The current configuration, the nodes, and the existing NodeShards."""

    configuration: Configuration
    nodes: Sequence[NodeFacts]
    shards: Mapping[str, NodeShard]
    period_seconds: float
    # The nodes were divided just now, and are divided again after this time; 0: now.
    wait_seconds: float = 0.0
    # What is wrong with the configuration, if it is new, and the ConfigMap that has it.
    problem: str = ""
    about: Reference | None = None


def reconcile(observed: Observed) -> Plan:
    """Divides the nodes. Without a valid configuration, NodeShards stay unchanged."""
    if observed.wait_seconds > 0:
        return Plan(again_seconds=observed.wait_seconds)
    events: list[Act] = []
    if observed.problem and observed.about is not None:
        text = f"{observed.problem}; the last valid configuration stays in use"
        events.append(Emit(observed.about, "InvalidConfiguration", text, warning=True))
    writes: list[Sequence[Act]] = []
    if observed.configuration.schedulers:
        writes = _writes(observed, divided(observed.configuration, observed.nodes))
    return Plan.of(events, *writes, again_seconds=observed.period_seconds)


def divided(configuration: Configuration, nodes: Sequence[NodeFacts]) -> dict[str, list[str]]:
    """The names of the nodes of each scheduler, in the order of their scores."""
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


def _writes(observed: Observed, desired: Mapping[str, list[str]]) -> list[Sequence[Act]]:
    """The stages of writes: in the first one, NodeShards lose nodes that move to another NodeShard."""
    shards = {
        name: shard for name, shard in observed.shards.items() if not shard.metadata.is_terminating
    }
    removals: list[Act] = [
        Delete.of(NODE_SHARDS, shard.metadata)
        for name, shard in sorted(shards.items())
        if name not in desired
    ]
    if not any(_differs(shards.get(name), nodes) for name, nodes in desired.items()):
        return [removals]
    holder = {node: name for name, shard in shards.items() for node in shard.nodes}
    first: list[Act] = []
    second: list[Act] = []
    for name, nodes in desired.items():
        shard = shards.get(name)
        current = set() if shard is None else set(shard.nodes)
        # Nodes that no other NodeShard has.
        free = [node for node in nodes if holder.get(node, name) == name]
        takes_nodes = len(free) < len(nodes)
        if takes_nodes and current - set(nodes):
            first.append(_write(name, shard, free))
            second.append(_write(name, shard, nodes))
        elif shard is None or current != set(nodes):
            (second if takes_nodes else first).append(_write(name, shard, nodes))
    return [[*removals, *first], second]


def _differs(shard: NodeShard | None, nodes: Sequence[str]) -> bool:
    if shard is None or len(shard.nodes) != len(nodes):
        return True
    exchanged = len(set(nodes) - set(shard.nodes))
    return exchanged >= max(1, len(nodes) // EXCHANGED_PART)


def _write(name: str, shard: NodeShard | None, nodes: Sequence[str]) -> Act:
    spec = {"nodesDesired": list(nodes)}
    if shard is not None:
        return Patch.of(NODE_SHARDS, shard.metadata, {"spec": spec})
    return Create(NODE_SHARDS, new_object(NODE_SHARDS, {"name": name}, spec=spec))
