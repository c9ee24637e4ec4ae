"""Generated clusters whose pods share GPUs, or get CPUs of one NUMA node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.core.deltas import ClusterObject
from pumice.core.model.node import Node
from pumice.core.model.pod import ContainerResources, Pod, PodSpec
from pumice.core.model.topology import NumaCpu, NumaTopology

_CARDS = 8
_CARD_MEMORY = 16_000
_NUMBER, _MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
_CORES = "volcano.sh/vgpu-cores"
_CPUS = 32
_NUMA_NODES = 2
_CORE = 1000


def with_vgpus(size: Size) -> Iterator[ClusterObject]:
    """New gangs whose pods each request a share of one card; nodes have eight cards."""
    return _changed(size, _with_cards, _sharing)


def with_numa(size: Size) -> Iterator[ClusterObject]:
    """New gangs of Guaranteed pods with the policy single-numa-node; nodes have two NUMA nodes."""
    for node in clusters.nodes_of(size):
        yield _topology(node.name)
    yield from _changed(size, lambda node: node, _aligned)


def _changed(
    size: Size, of_node: Callable[[Node], Node], of_spec: Callable[[PodSpec, int], PodSpec]
) -> Iterator[ClusterObject]:
    specs: dict[PodSpec, PodSpec] = {}
    for item in clusters.fresh(size):
        if isinstance(item, Node):
            yield of_node(item)
        elif isinstance(item, Pod) and item.namespace == clusters.NAMESPACE:
            spec = specs.get(item.spec)
            if spec is None:
                spec = specs[item.spec] = of_spec(item.spec, len(specs))
            yield replace(item, spec=spec)
        else:
            yield item


def _with_cards(node: Node) -> Node:
    cards = "".join(
        f"GPU-{node.name}-{number},10,{_CARD_MEMORY},NVIDIA-A100,true,hami-core:"
        for number in range(_CARDS)
    )
    more = (
        (_NUMBER, _CARDS * 10 * _CORE),
        (_MEMORY, _CARDS * _CARD_MEMORY * _CORE),
        (_CORES, _CARDS * 100 * _CORE),
    )
    annotations = {**node.annotations, "volcano.sh/node-vgpu-register": cards}
    return replace(node, annotations=annotations, allocatable=(*node.allocatable, *more))


def _sharing(spec: PodSpec, number: int) -> PodSpec:
    asked = ((_CORES, 10 * _CORE), (_MEMORY, (1 + number % 4) * 1000 * _CORE), (_NUMBER, _CORE))
    container = ContainerResources(limits=asked, name="main")
    return replace(spec, requests=(*spec.requests, *asked), containers=(container,))


def _aligned(spec: PodSpec, number: int) -> PodSpec:
    milli_cpu = (1 + number % 2) * _CORE
    requests = tuple((n, milli_cpu if n == "cpu" else amount) for n, amount in spec.requests)
    return replace(
        spec,
        requests=requests,
        non_zero_milli_cpu=milli_cpu,
        containers=(ContainerResources(milli_cpu=milli_cpu, name="main"),),
        guaranteed=True,
        numa_policy="single-numa-node",
    )


def _topology(node: str) -> NumaTopology:
    per_numa = _CPUS // _NUMA_NODES
    cpus = tuple(NumaCpu(c, c // per_numa, c // per_numa, c // 2) for c in range(_CPUS))
    return NumaTopology(
        f"uid-numa-{node}",
        node,
        {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
        {"cpu": (f"0-{_CPUS - 1}", _CPUS)},
        cpus,
    )
