"""Nodes with cards, pods that share them, and what a session decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind
from pumice.core.engine import Engine
from pumice.core.model.node import Node
from pumice.core.model.pod import ContainerResources, Pod
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, amounts, fill, pod, pod_group, queue

SECOND_NS = 10**9
NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
IDS = "volcano.sh/vgpu-ids-new"
INDEX = "volcano.sh/gpu-index"
REGISTER = "volcano.sh/node-vgpu-register"


def engine_with(arguments: Mapping[str, Any], *objects: Any, actions: str = "allocate") -> Engine:
    plugins: list[dict[str, Any]] = [{"name": "gang"}, {"name": "predicates"}]
    plugins.append({"name": "deviceshare", "arguments": dict(arguments)})
    data = {"actions": actions, "tiers": [{"plugins": plugins}]}
    engine = Engine(read_configuration(data, Registry().catalog()))
    return fill(engine, queue(), *objects)


VGPU = {"deviceshare.VGPUEnable": True}
BINPACK = {**VGPU, "deviceshare.SchedulePolicy": "binpack", "deviceshare.ScheduleWeight": 1}
HAMI = {"deviceshare.AscendHAMiVNPUEnable": True}
SHARING = {"deviceshare.GPUSharingEnable": True}
BY_NUMBER = {"deviceshare.GPUNumberEnable": True}


def gpu_node(name: str, cards: int, memory: int, **annotations: str) -> Node:
    offered = amounts(64, 256, pods=110)
    more = (("volcano.sh/gpu-memory", memory * 1000), ("volcano.sh/gpu-number", cards * 1000))
    return Node(
        f"uid-{name}",
        name,
        annotations=annotations,
        allocatable=(*offered, *more),
        capacity=(*offered, *more),
    )


def vgpu_node(name: str, *cards: str, register: str | None = None) -> Node:
    """Cards are ``memory`` or ``memory/type``."""
    parts = []
    for index, card in enumerate(cards):
        memory, _, kind = card.partition("/")
        parts.append(f"{name}-{index},10,{memory},NVIDIA-{kind or 'A100'},true,hami-core:")
    offered = (
        *amounts(64, 256, pods=110),
        (NUMBER, 10_000 * len(cards)),
        (MEMORY, sum(int(card.partition("/")[0]) for card in cards) * 1000),
        (CORES, 100_000 * len(cards)),
    )
    text = "".join(parts) if register is None else register
    return Node(
        f"uid-{name}",
        name,
        annotations={REGISTER: text} if text else {},
        allocatable=offered,
        capacity=offered,
    )


_A100 = {
    "models": ["A100-SXM4-40GB", "A100-PCIE-40GB"],
    "allowedGeometries": [
        {"group": "group1", "geometries": [{"name": "1g.5gb", "memory": 5120, "count": 7}]},
        {
            "group": "group2",
            "geometries": [
                {"name": "2g.10gb", "memory": 10240, "count": 3},
                {"name": "1g.5gb", "memory": 5120, "count": 1},
            ],
        },
        {"group": "group3", "geometries": [{"name": "7g.40gb", "memory": 40960, "count": 1}]},
    ],
}
MIG_CONFIG = {"nvidia": {"knownMigGeometries": [_A100]}}


def mig_node(name: str, cards: int = 1, kind: str = "A100-SXM4-40GB", mode: str = "mig") -> Node:
    register = "".join(
        f"{name}-{index},10,40960,NVIDIA-{kind},true,{mode}:" for index in range(cards)
    )
    return vgpu_node(name, *["40960"] * cards, register=register)


def npu_node(
    name: str,
    *cards: tuple[int, ...],
    word: str = "Ascend310P",
    count: int = 8,
    cores: int = 8,
    annotations: Mapping[str, str] | None = None,
) -> Node:
    """Cards are ``(memory,)`` or ``(memory, network)``."""
    register = [
        {
            "id": f"{name}-{index}",
            "count": count,
            "devmem": card[0],
            "devcore": cores,
            "type": word,
            **({"custominfo": {"NetworkID": card[1]}} if len(card) > 1 else {}),
        }
        for index, card in enumerate(cards)
    ]
    offered = (*amounts(64, 256, pods=110), (f"huawei.com/{word}", count * len(cards) * 1000))
    said = {f"hami.io/node-register-{word}": json.dumps(register), **(annotations or {})}
    return Node(f"uid-{name}", name, annotations=said, allocatable=offered, capacity=offered)


def npu(memory: int = 0, number: int = 1, cores: int = 0, word: str = "Ascend310P") -> Any:
    resource = f"huawei.com/{word}"
    asked = {resource: number, f"{resource}-memory": memory, f"{resource}-core": cores}
    return {name: amount for name, amount in asked.items() if amount or name == resource}


def configured(engine: Engine, config: Mapping[str, Any]) -> Engine:
    """The engine with a device configuration."""
    engine.configure(replace(engine.configuration, device_config=json.dumps(config)))
    return engine


def asking(name: str, group: str, *containers: Mapping[str, int], **fields: Any) -> Pod:
    """A pod whose containers have limits of extended resources, in whole units."""
    made = tuple(
        ContainerResources(limits=tuple(sorted((k, v * 1000) for k, v in limits.items())))
        for limits in containers
    )
    base = pod(name, group, spec={"containers": made}, **fields)
    total: dict[str, int] = {}
    for limits in containers:
        for key, value in limits.items():
            total[key] = total.get(key, 0) + value * 1000
    requests = (*base.spec.requests, *sorted(total.items()))
    return replace(base, spec=replace(base.spec, requests=requests))


def gang(name: str, *pods: Pod, minimum: int | None = None) -> list[Any]:
    return [pod_group(name, len(pods) if minimum is None else minimum), *pods]


def run(engine: Engine, second: int = 0) -> dict[str, Bind]:
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    assert result.faults == ()
    return {d.name: d for d in result.decisions if isinstance(d, Bind)}


def said(binds: Mapping[str, Bind], key: str) -> dict[str, str]:
    return {name: dict(bind.annotations).get(key, "") for name, bind in binds.items()}


def waits_of(engine: Engine, job: str) -> dict[str, int]:
    [wait] = [wait for wait in engine.waits if wait.job == f"ns/{job}"]
    return {count.reason: count.nodes for reason in wait.reasons for count in reason.nodes}


def share(memory: int = 0, number: int = 1, cores: int = 0) -> dict[str, int]:
    asked = {NUMBER: number, MEMORY: memory, CORES: cores}
    return {name: amount for name, amount in asked.items() if amount or name == NUMBER}
