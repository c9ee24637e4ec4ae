"""Explanations of refusals that follow from measured load and from node groups."""

from __future__ import annotations

from dataclasses import replace

from pumice.core.configuration import Configuration, PluginOptions
from pumice.core.deltas import ClusterObject, DataReported
from pumice.core.engine import Engine
from pumice.core.model.group import NodeGroupAffinity
from pumice.core.plugins.nodegroup import NODE_GROUP
from pumice.server.explaining.nearest import nearest_nodes
from tests.core.builders import NOW_NS, fill, job, node, queue


def reasons(plugin: str, *objects: ClusterObject, data: DataReported | None = None) -> list[str]:
    tier = tuple(PluginOptions(name) for name in ("gang", "predicates", plugin))
    engine = fill(Engine(Configuration(("allocate",), (tier,))), *objects, *job("a", 1))
    engine.apply([data] if data is not None else [])
    engine.schedule(NOW_NS)
    task = engine.cache.tasks["uid-a-0"]
    found = engine.inspect(lambda session: nearest_nodes(session, task, 1), NOW_NS)
    return list(found[0].reasons)


def test_a_node_with_too_much_load_is_explained_with_its_figure_and_its_age() -> None:
    values = {"cpu": 93.4, "memory": 10.0, "time": NOW_NS / 1e9 - 12}
    said = reasons("usage", queue(), node("n1"), data=DataReported("usage", "n1", values))
    assert said == ["the CPU load of the node exceeds the upper limit. It was 93 % 12 s ago"]


def test_a_node_of_another_group_is_explained_with_its_group() -> None:
    held = replace(queue(), affinity=NodeGroupAffinity(required=("gpu",)))
    said = reasons("nodegroup", held, node("n1", labels={NODE_GROUP: "edge"}))
    assert said == ["node does not satisfy the node group affinity: its group is edge"]
