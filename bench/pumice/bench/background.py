"""The background of a generated cluster: objects that real clusters have besides batch jobs.

The seed determines all of them: Services, DNS with anti-affinity, a DaemonSet, tenants' Services
that select pods of jobs, a web application with preferred anti-affinity, disruption budgets, quotas,
images and annotations of nodes, cordoned and newly registered nodes, and single, best-effort and
finished pods.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pumice.core.deltas import ClusterObject, Delta, Upserted
from pumice.core.model.group import (
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PodGroupPhase,
    PodGroupStatus,
    ResourceQuota,
    Workload,
)
from pumice.core.model.node import Node, NodeImage
from pumice.core.model.pod import (
    Pod,
    PodAffinityTerm,
    PodPhase,
    PodSpec,
    WeightedPodAffinityTerm,
)
from pumice.core.model.selectors import (
    LabelSelector,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)

MIB = 2**20
SYSTEM = "kube-system"
HOSTNAME = "kubernetes.io/hostname"
REPORTS_ANNOTATION = "volcano.sh/last-report"
# Extra capacity of a node for the DaemonSet, DNS and the web application.
SYSTEM_MILLI_CPU, SYSTEM_MEMORY = 1000, 1024 * MIB
# One node in N is cordoned, newly registered, or has a pod of the web application.
_CORDONED_IN, _REGISTERED_IN, _WEB_IN = 50, 100, 10
# One job in N has a Service, as the plugin svc of Volcano's job controller creates it.
_SERVICE_IN = 10
# One single pod, best-effort pod and finished pod per N jobs.
_SINGLE_IN, _BEST_EFFORT_IN, _FINISHED_IN = 50, 50, 20
_IMAGES, _IMAGES_PER_NODE = 200, 30
# One heartbeat in N reports other images.
_PULLS_IN = 10


def matching(**labels: str) -> LabelSelector:
    return LabelSelector(
        tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())
    )


class Background:
    """Generates the background of one cluster."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        images = [
            NodeImage(
                (f"registry.local/team/app-{number}:v1", f"app-{number}@sha256:{number:064x}"),
                self._random.randrange(20, 2000) * MIB,
            )
            for number in range(_IMAGES)
        ]
        # Nodes share image lists, because they run the same DaemonSets and jobs.
        self._image_lists = [
            tuple(self._random.sample(images, _IMAGES_PER_NODE)) for _ in range(_IMAGES)
        ]
        self._cordoned = self._random.randrange(10, _CORDONED_IN)

    # Nodes.

    def node(self, node: Node, number: int) -> Node:
        """The node as a kubelet reports it, with capacity for system pods."""
        more = {"cpu": SYSTEM_MILLI_CPU, "memory": SYSTEM_MEMORY, "pods": 10}
        offered = tuple((name, amount + more.get(name, 0)) for name, amount in node.allocatable)
        labels = {
            **node.labels,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": f"type-{number % 7}",
        }
        return replace(
            node,
            labels=labels,
            allocatable=offered,
            capacity=offered,
            annotations={REPORTS_ANNOTATION: "0"},
            images=self._image_lists[number % len(self._image_lists)],
            unschedulable=number % _CORDONED_IN == self._cordoned,
        )

    def registered_nodes(self, count: int) -> Iterator[Node]:
        """Newly registered nodes, which have not reported their resources yet."""
        taint = Taint("node.kubernetes.io/not-ready", "", TaintEffect.NO_SCHEDULE)
        for number in range(count // _REGISTERED_IN):
            name = f"node-new-{number:04d}"
            yield Node(f"uid-{name}", name, labels={HOSTNAME: name}, taints=(taint,))

    def heartbeats(self, nodes: Sequence[Node], count: int, round_number: int) -> Iterator[Delta]:
        """Heartbeats of ``count`` nodes; one in ten reports other images."""
        first = round_number * count
        for number in range(first, first + count):
            node = nodes[number % len(nodes)]
            images = node.images
            if number % _PULLS_IN == 0 and images:
                images = self._image_lists[(number + round_number) % len(self._image_lists)]
            yield Upserted(
                replace(
                    node, annotations={REPORTS_ANNOTATION: str(round_number + 1)}, images=images
                )
            )

    def spec(self, spec: PodSpec, number: int) -> PodSpec:
        """The spec with a container image."""
        return replace(spec, images=(f"registry.local/team/app-{number % _IMAGES}:v1",))

    # Everything else.

    def cluster(self, names: Sequence[str]) -> Iterator[ClusterObject]:
        """System pods and tenants' applications on the nodes with these names."""
        for namespace in ("default", SYSTEM, "web"):
            yield Namespace(f"uid-{namespace}", namespace, {"name": namespace})
        yield Workload("uid-svc-kubernetes", "Service", "default", "kubernetes")
        yield from self._dns(names)
        yield from self._daemons(names)
        yield from self._web(names[::_WEB_IN])

    def _dns(self, names: Sequence[str]) -> Iterator[ClusterObject]:
        labels = {"k8s-app": "kube-dns"}
        yield Workload("uid-svc-dns", "Service", SYSTEM, "kube-dns", matching(**labels))
        away = PodAffinityTerm(HOSTNAME, matching(**labels))
        spec = replace(_spec(100, 70 * MIB), required_anti_affinity=(away,))
        for number, node in enumerate(names[:2]):
            yield _running(SYSTEM, f"coredns-{number}", spec, node, labels)

    def _daemons(self, names: Sequence[str]) -> Iterator[ClusterObject]:
        spec = replace(_spec(100, 128 * MIB), tolerations=(Toleration(),))
        labels = {"k8s-app": "node-agent"}
        for node in names:
            yield _running(SYSTEM, f"agent-{node}", spec, node, labels)

    def _web(self, names: Sequence[str]) -> Iterator[ClusterObject]:
        """An application of another scheduler, with preferred anti-affinity between its pods."""
        labels = {"app": "web"}
        selector = matching(**labels)
        yield Workload("uid-svc-web", "Service", "web", "web", selector)
        yield Workload("uid-rs-web", "ReplicaSet", "web", "web", selector)
        yield PodDisruptionBudget("uid-pdb-web", "web", "web", selector, 1)
        term = WeightedPodAffinityTerm(100, PodAffinityTerm(HOSTNAME, selector))
        spec = replace(_spec(250, 256 * MIB), preferred_anti_affinity=(term,))
        for number, node in enumerate(names):
            yield _running("web", f"web-{number}", spec, node, labels)

    def tenants(self, namespace: str, jobs: Sequence[str]) -> Iterator[ClusterObject]:
        """Objects of tenants besides their jobs: Services, disruption budgets and a quota."""
        yield Namespace(f"uid-{namespace}", namespace, {"name": namespace})
        hard = (("requests.cpu", 10**12), ("requests.memory", 10**18), ("pods", 10**9))
        used = (("requests.cpu", 10**6), ("requests.memory", 10**12), ("pods", 10**4))
        yield ResourceQuota(f"uid-quota-{namespace}", namespace, "quota", hard, used)
        for name in self._some(jobs, _SERVICE_IN):
            selector = matching(job=name)
            yield Workload(f"uid-svc-{name}", "Service", namespace, name, selector)
            yield PodDisruptionBudget(f"uid-pdb-{name}", namespace, name, selector, 1)

    def _some(self, names: Sequence[str], one_in: int) -> list[str]:
        return sorted(self._random.sample(names, len(names) // one_in))

    # Pods among the gangs.

    def pending_pods(self, namespace: str, jobs: int, queue: str) -> Iterator[ClusterObject]:
        """New single and best-effort pods."""
        single = replace(_spec(500, 512 * MIB), scheduler_name="volcano")
        best_effort = replace(
            _spec(0, 0),
            requests=(("pods", 1),),
            non_zero_milli_cpu=100,
            non_zero_memory_bytes=200 * MIB,
            scheduler_name="volcano",
        )
        for number in range(jobs // _SINGLE_IN):
            yield from _group_of_one(namespace, f"single-{number:05d}", single, queue)
        for number in range(jobs // _BEST_EFFORT_IN):
            yield from _group_of_one(namespace, f"best-effort-{number:05d}", best_effort, queue)

    def finished_pods(
        self, namespace: str, names: Sequence[str], jobs: int, queue: str
    ) -> Iterator[ClusterObject]:
        """Completed jobs that are not deleted yet."""
        spec = replace(_spec(1000, 1024 * MIB), scheduler_name="volcano")
        for number in range(jobs // _FINISHED_IN):
            name = f"done-{number:05d}"
            status = PodGroupStatus(PodGroupPhase.COMPLETED, succeeded=1)
            yield PodGroup(f"uid-{name}", namespace, name, queue=queue, min_member=1, status=status)
            yield Pod(
                f"uid-{name}-0",
                namespace,
                f"{name}-0",
                spec=spec,
                phase=PodPhase.SUCCEEDED,
                node_name=names[number % len(names)],
                labels={"job": name},
                group_name=name,
            )


def pending_count(jobs: int) -> int:
    """The number of pods that ``pending_pods`` generates."""
    return jobs // _SINGLE_IN + jobs // _BEST_EFFORT_IN


def _spec(milli_cpu: int, memory: int) -> PodSpec:
    return PodSpec(
        requests=(("cpu", milli_cpu), ("memory", memory), ("pods", 1)),
        non_zero_milli_cpu=milli_cpu,
        non_zero_memory_bytes=memory,
        scheduler_name="default-scheduler",
    )


def _running(namespace: str, name: str, spec: PodSpec, node: str, labels: dict[str, str]) -> Pod:
    return Pod(
        f"uid-{namespace}-{name}",
        namespace,
        name,
        spec=spec,
        phase=PodPhase.RUNNING,
        node_name=node,
        labels=labels,
        creation_time_ns=1,
        start_time_ns=1,
    )


def _group_of_one(namespace: str, name: str, spec: PodSpec, queue: str) -> Iterable[ClusterObject]:
    status = PodGroupStatus(PodGroupPhase.INQUEUE)
    yield PodGroup(f"uid-{name}", namespace, name, 1, queue=queue, min_member=1, status=status)
    yield Pod(
        f"uid-{name}-0",
        namespace,
        f"{name}-0",
        spec=spec,
        creation_time_ns=1,
        labels={"job": name},
        group_name=name,
    )
