"""The sharding controller: which scheduler has which nodes."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.controllers.options import ControllerOptions, ShardingOptions
from pumice.controllers.runtime.acts import Act, Create, Delete, Patch
from pumice.controllers.runtime.objects import Metadata
from pumice.controllers.sharding.configuration import Configuration, read, read_flags
from pumice.controllers.sharding.controller import ShardingController
from pumice.controllers.sharding.policies import NodeFacts
from pumice.controllers.sharding.reconcile import Observed, divided, reconcile
from pumice.controllers.sharding.types import NodeShard, _ShardSpec
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.running import Loops

SHARDS = "nodeshards.shard.volcano.sh"
CONF = """
shardSyncPeriod: 1h
schedulerConfigs:
- name: volcano
  type: volcano
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.0, maxCPUUtil: 0.6}}
  - {name: node-limit, arguments: {minNodes: 1, maxNodes: 2}}
- name: agent
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1.0}}
  - {name: warmup, weight: 2}
"""
WARM = {"node.volcano.sh/warmup": "true"}


def node(name: str, share: float = 0.0, **labels: str) -> NodeFacts:
    return NodeFacts(name, share, labels)


def shard(name: str, *nodes: str) -> NodeShard:
    return NodeShard(Metadata(name=name, uid=f"uid-{name}"), _ShardSpec(list(nodes)))


def test_the_fullest_nodes_of_the_range_are_taken_first_and_warm_ones_before_them() -> None:
    nodes = [
        node("a", 0.1),
        node("b", 0.604),
        node("c", 0.3),
        node("d", 0.65),
        node("e", 0.7),
        NodeFacts("f", 0.69501, WARM),
    ]
    assert divided(read(CONF), nodes) == {"volcano": ["b", "c"], "agent": ["f", "e"]}


def test_a_node_that_one_scheduler_leaves_is_free_for_the_next() -> None:
    both = Configuration(read_flags(["a:x:0:1:false:0:1", "b:x:0:1:false:0:0"]).schedulers)
    assert divided(both, [node("n1"), node("n2"), node("n3")]) == {"a": ["n1"], "b": ["n2", "n3"]}


def test_more_than_fifty_nodes_are_divided_at_once() -> None:
    one = read_flags(["a:x:0:1:false:2:60"])
    assert len(divided(one, [node(f"n{number}") for number in range(200)])["a"]) == 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[", "invalid YAML"),
        ("", "needs a list schedulerConfigs"),
        ("schedulerConfigs: []", "at least one entry"),
        ("schedulerConfigs: [{type: x}]", r"\[0\]: name is missing"),
        ("schedulerConfigs: [{name: a}, {name: a}]", "a is listed twice"),
        ("schedulerConfigs: [{name: a, cpuUtilizationMin: 2}]", "allowed: 0 <= minCPUUtil"),
        ("schedulerConfigs: [{name: a, minNodes: 3, maxNodes: 2}]", "maxNodes 2 is below"),
        ("schedulerConfigs: [{name: a, policies: [{name: x}]}]", "unknown policy 'x'"),
        ("schedulerConfigs: [{name: a, policies: [{}]}]", "needs a name"),
        ("schedulerConfigs: [{name: a, policies: [{name: warmup, weight: -1}]}]", "weight is -1"),
        (
            "schedulerConfigs: [{name: a, policies: [{name: warmup, arguments: {maxNodes: 1}}]}]",
            "unknown argument 'maxNodes'",
        ),
        ("{schedulerConfigs: [{name: a}], shardSyncPeriod: 0s}", "shardSyncPeriod"),
        ("{schedulerConfigs: [{name: a}], enableNodeEventTrigger: 3}", "enableNodeEventTrigger"),
    ],
)
def test_a_wrong_configuration_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        read(text)


@pytest.mark.parametrize("text", ["a:b", "a:b:x:1:false:0:1", "a:b:0:1:maybe:0:1"])
def test_a_wrong_flag_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: name:type"):
        read_flags([text])


def test_older_fields_stand_for_policies() -> None:
    text = "schedulerConfigs: [{name: a, cpuUtilizationMax: 0.5, maxNodes: 1}, {name: b}]"
    nodes = [node("full", 0.9), node("half", 0.5), node("idle")]
    assert divided(read(text), nodes) == {"a": ["half"], "b": ["full", "idle"]}


def acts(observed: Observed) -> list[list[Act]]:
    return [list(stage) for stage in reconcile(observed).stages]


def test_a_node_that_moves_leaves_the_one_before_it_enters_the_other() -> None:
    both = read_flags(["a:x:0:0.5:false:0:0", "b:x:0.5:1:false:0:0"])
    nodes = [node("n1", 0.9), node("n2", 0.1)]
    # Both exchange their nodes.
    held = {"a": shard("a", "n1"), "b": shard("b", "n2"), "old": shard("old", "n9")}
    stages = acts(Observed(both, nodes, held, 60.0))
    assert [sorted(_shown(act) for act in stage) for stage in stages] == [
        ["a=", "b=", "delete old"],
        ["a=n2", "b=n1"],
    ]


def _shown(act: Act) -> str:
    match act:
        case Delete():
            return f"delete {act.name}"
        case Patch():
            return f"{act.name}={','.join(act.body['spec']['nodesDesired'])}"
        case Create():
            return f"{act.body['metadata']['name']}={','.join(act.body['spec']['nodesDesired'])}"
    return str(act)


def test_a_tenth_of_the_nodes_must_change() -> None:
    one = read_flags(["a:x:0:1:false:0:30"])
    names = [f"n{number:02}" for number in range(31)]
    held = {"a": shard("a", *names[1:])}
    assert acts(Observed(one, [node(name) for name in names], held, 60.0)) == []
    held = {"a": shard("a", *names[1:30])}
    assert len(acts(Observed(one, [node(name) for name in names], held, 60.0))) == 1


@given(st.integers(0, 2**32))
def test_no_node_is_ever_in_two_shards(seed: int) -> None:
    rng = random.Random(seed)
    both = read_flags(["a:x:0:0.5:false:0:3", "b:x:0.3:1:false:0:2", "c:x:0:1:false:0:0"])
    nodes = [node(f"n{number}", rng.random()) for number in range(8)]
    shards: dict[str, list[str]] = {}
    for one in nodes:
        shards.setdefault(rng.choice("abcd"), []).append(one.name)
    held = {name: shard(name, *names) for name, names in shards.items()}
    for stage in acts(Observed(both, nodes, held, 60.0)):
        # Writes of a stage take effect in any order.
        rng.shuffle(stage)
        for act in stage:
            name = act.body["metadata"]["name"] if isinstance(act, Create) else act.name  # type: ignore[union-attr]
            shards.pop(name, None)
            if not isinstance(act, Delete):
                shards[name] = act.body["spec"]["nodesDesired"]  # type: ignore[union-attr]
            taken = [one for key, names in shards.items() if key != "d" for one in names]
            assert len(taken) == len(set(taken))
    assert set(shards) == {"a", "b", "c"}
    final = {name: shard(name, *names) for name, names in shards.items()}
    assert acts(Observed(both, nodes, final, 60.0)) == []


def _node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"capacity": {"cpu": cpu, "memory": "8Gi"}}}


def _pod(name: str, on: str, cpu: str) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": on, "containers": [container]}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


async def test_shards_follow_nodes_pods_and_the_configuration(
    fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.resources |= {SHARDS}
    metadata = {"name": "volcano-sharding-configmap", "namespace": "volcano-system"}
    fake_api.put("configmaps", {"metadata": metadata, "data": {"sharding.yaml": CONF}})
    for name in ("n1", "n2"):
        fake_api.put("nodes", _node(name))

    def shards() -> dict[str, set[str]]:
        held = {key[2]: body for key, body in fake_api.objects.items() if key[0] == SHARDS}
        return {name: set(body["spec"]["nodesDesired"]) for name, body in held.items()}

    options = ControllerOptions(sharding=ShardingOptions(period_seconds=3600))
    loops.start(ShardingController(options))
    await until(lambda: shards() == {"volcano": {"n1", "n2"}, "agent": set()})
    fake_api.put("pods", _pod("large", "n1", "3"))
    await until(lambda: shards() == {"volcano": {"n2"}, "agent": {"n1"}})
    fake_api.remove("pods", "team", "large")
    await until(lambda: shards() == {"volcano": {"n1", "n2"}, "agent": set()})
    fake_api.remove(SHARDS, "", "agent")
    await until(lambda: shards() == {"volcano": {"n1", "n2"}, "agent": set()})
    fake_api.remove("nodes", "", "n1")
    await until(lambda: shards() == {"volcano": {"n2"}, "agent": set()})

    fake_api.put("configmaps", {"metadata": metadata, "data": {"sharding.yaml": "["}})
    await until(
        lambda: any(event["reason"] == "InvalidConfiguration" for event in events(fake_api))
    )
    assert shards() == {"volcano": {"n2"}, "agent": set()}
    # A deleted configuration stays in force.
    fake_api.remove("configmaps", "volcano-system", metadata["name"])
    fake_api.put("nodes", _node("n3"))
    await until(lambda: shards() == {"volcano": {"n2", "n3"}, "agent": set()})
    only = "schedulerConfigs: [{name: mine}]"
    fake_api.put("configmaps", {"metadata": metadata, "data": {"sharding.yaml": only}})
    await until(lambda: shards() == {"mine": {"n2", "n3"}})


def events(fake_api: FakeApi) -> list[dict[str, Any]]:
    return [body for key, body in fake_api.objects.items() if key[0].startswith("events")]
