"""A cluster in memory: built in a few lines, with decisions that come true between sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pumice.client.reasons import summarized, told
from pumice.manifests import translate, translate_all
from pumice.server.local import ConfigurationRefusedError, LocalCore
from pumice.testing.world import World
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Decision
from pumice.v1.object_pb2 import ClusterObject, Kind, ObjectRef
from pumice.v1.reason_pb2 import Wait

_SECOND_NS = 1_000_000_000
START_NS = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * _SECOND_NS


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one session decided. Pods and jobs are ``namespace/name``."""

    binds: Mapping[str, str]
    evicts: frozenset[str]
    # PodGroup to phase, after the session.
    phases: Mapping[str, str]
    # Job to reasons, as sentences.
    waits: Mapping[str, tuple[str, ...]]
    decisions: tuple[Decision, ...] = field(default=(), repr=False)


class Cluster:
    """Every method that adds something returns the cluster, so that calls can be chained."""

    def __init__(self, conf: str = "", *, now_ns: int = START_NS) -> None:
        try:
            self._core = LocalCore(Configuration(scheduler_conf=conf))
        except ConfigurationRefusedError as error:
            raise ValueError("; ".join(f"{p.path}: {p.problem}" for p in error.told)) from None
        self.now_ns = now_ns
        self._world = World(())
        self._made = 0
        self._has_queue: set[str] = set()

    # Building.

    def node(
        self,
        name: str,
        cpu: str = "4",
        memory: str = "16Gi",
        *,
        labels: Mapping[str, str] | None = None,
        **more: str,
    ) -> Cluster:
        """A node; further resources by name, with underscores for what Python cannot spell."""
        amounts = {"cpu": cpu, "memory": memory, "pods": "110", **_amounts(more)}
        return self.manifest(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": self._metadata(name, labels={**(labels or {})}),
                "status": {"allocatable": amounts, "capacity": amounts},
            }
        )

    def nodes(self, count: int, cpu: str = "4", memory: str = "16Gi", **more: Any) -> Cluster:
        """``n1``, ``n2`` and so on."""
        for number in range(1, count + 1):
            self.node(f"n{number}", cpu, memory, **more)
        return self

    def queue(self, name: str, weight: int = 1, **spec: Any) -> Cluster:
        self._has_queue.add(name)
        return self.manifest(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": self._metadata(name),
                "spec": {"weight": weight, **spec},
                "status": {"state": "Open"},
            }
        )

    def priority_class(self, name: str, value: int) -> Cluster:
        return self.manifest(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": self._metadata(name),
                "value": value,
            }
        )

    def job(
        self,
        name: str,
        pods: int = 1,
        cpu: str = "1",
        memory: str = "1Gi",
        *,
        queue: str = "default",
        minimum: int | None = None,
        namespace: str = "default",
        priority_class: str = "",
        pod_spec: Mapping[str, Any] | None = None,
        **more: str,
    ) -> Cluster:
        """A PodGroup and its pods, ``name-0`` and so on; all must start together by default."""
        if queue not in self._has_queue:
            self.queue(queue)
        spec = {"minMember": pods if minimum is None else minimum, "queue": queue}
        if priority_class:
            spec["priorityClassName"] = priority_class
        self.manifest(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": self._metadata(name, namespace=namespace),
                "spec": spec,
            }
        )
        requests = {"cpu": cpu, "memory": memory, **_amounts(more)}
        for number in range(pods):
            annotations = {"scheduling.k8s.io/group-name": name}
            metadata = self._metadata(f"{name}-{number}", namespace=namespace)
            self.manifest(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {**metadata, "annotations": annotations},
                    "spec": {
                        "schedulerName": "volcano",
                        "containers": [{"name": "main", "resources": {"requests": requests}}],
                        **({"priorityClassName": priority_class} if priority_class else {}),
                        **(pod_spec or {}),
                    },
                    "status": {"phase": "Pending"},
                }
            )
        return self

    def manifest(self, body: Mapping[str, Any]) -> Cluster:
        """Any Kubernetes object that scheduling reads."""
        message = translate(dict(body))
        if message is None:
            raise ValueError(f"{body.get('kind')} is not read by scheduling")
        return self.add(message)

    def manifests(self, *files: Any) -> Cluster:
        """YAML or JSON files, by path or open."""
        found = translate_all(*files)
        if found.errors:
            raise ValueError("; ".join(map(str, found.errors)))
        return self.add(*found.objects)

    def add(self, *objects: ClusterObject) -> Cluster:
        """Objects of the wire."""
        rejected = self._core.upsert(*objects)
        if rejected:
            raise ValueError(
                "; ".join(
                    f"{Kind.Name(one.kind)} {one.key}: {one.field}: {one.reason}"
                    for one in rejected
                )
            )
        self._world.add(objects)
        self._has_queue |= {item.queue.name for item in objects if item.HasField("queue")}
        return self

    def remove(self, kind: Kind.ValueType, uid: str) -> Cluster:
        self._core.delete(ObjectRef(kind=kind, uid=uid))
        self._world.remove(uid)
        return self

    def _metadata(
        self, name: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Who was added earlier is older."""
        self._made += 1
        metadata: dict[str, Any] = {
            "name": name,
            "uid": f"uid-{self._made:06d}",
            "creationTimestamp": datetime.fromtimestamp(1_767_225_600 + self._made, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
        }
        if namespace:
            metadata["namespace"] = namespace
        if labels:
            metadata["labels"] = dict(labels)
        return metadata

    # Running.

    def cycle(self, seconds: float = 1.0) -> Cycle:
        """One session. Afterwards bound pods run, evicted pods are gone, and time has passed."""
        session = self._core.session(self.now_ns)
        self.now_ns += int(seconds * _SECOND_NS)
        changes = self._world.happens(session.decisions, session.statuses)
        self._core.upsert(*changes.objects)
        self._core.delete(*changes.gone)
        return Cycle(
            {_pod(d.bind): d.bind.node for d in session.decisions if d.HasField("bind")},
            frozenset(_pod(d.evict) for d in session.decisions if d.HasField("evict")),
            self._world.phases(),
            {wait.job: _sentences(wait) for wait in session.waits},
            tuple(session.decisions),
        )

    def cycles(self, count: int) -> list[Cycle]:
        return [self.cycle() for _ in range(count)]


def cluster(conf: str = "") -> Cluster:
    """An empty cluster with a scheduler configuration, or the built-in one.

    Raises ValueError for a configuration that cannot be used.
    """
    return Cluster(conf)


def _amounts(more: Mapping[str, str]) -> dict[str, str]:
    """``nvidia_com__gpu`` for ``nvidia.com/gpu``."""
    return {name.replace("__", "/").replace("_", "."): text for name, text in more.items()}


def _pod(order: Any) -> str:
    return f"{order.namespace}/{order.name}"


def _sentences(wait: Wait) -> tuple[str, ...]:
    return tuple(told(reason) for reason in summarized(wait.reasons))
