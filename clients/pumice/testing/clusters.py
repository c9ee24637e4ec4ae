"""A cluster in memory for tests; decisions are applied between sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

from pumice.client.reasons import Reason, merge_tasks
from pumice.evaluation import Fault, fault_text
from pumice.manifests import translate, translate_all
from pumice.server.local import (
    ConfigurationRefusedError,
    LocalCore,
    PluginRefusedError,
    registry_with,
)
from pumice.testing.errors import PluginFaultError
from pumice.testing.world import World
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Decision
from pumice.v1.object_pb2 import (
    KIND_NODE,
    KIND_POD,
    KIND_POD_GROUP,
    ClusterObject,
    Kind,
    ObjectRef,
)
from pumice.v1.reason_pb2 import Wait

_SECOND_NS = 1_000_000_000
_QUEUE_FIELDS = (
    *("affinity", "capability", "deserved", "guarantee", "parent", "priority", "reclaimable"),
    *("type", "weight", "dequeueStrategy", "extendClusters"),
)
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
START_NS = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * _SECOND_NS


@dataclass(frozen=True, slots=True)
class Cycle:
    """The decisions of one session. Pods and jobs are ``namespace/name``."""

    binds: Mapping[str, str]
    evicts: frozenset[str]
    # Phases of PodGroups after the session.
    phases: Mapping[str, str]
    # Reasons of waiting jobs, as text.
    waits: Mapping[str, tuple[str, ...]]
    # Faults of plugins and actions; empty unless the cluster allows faults.
    faults: tuple[Fault, ...] = ()
    decisions: tuple[Decision, ...] = field(default=(), repr=False)


class Cluster:
    """A cluster and its core. Methods that add objects return the cluster, for chaining."""

    def __init__(
        self,
        conf: str | Path = "",
        *,
        plugins: Sequence[type] = (),
        now_ns: int = START_NS,
        allow_faults: bool = False,
    ) -> None:
        text = conf.read_text(encoding="utf-8") if isinstance(conf, Path) else conf
        self._core = core_with(text, plugins)
        self.now_ns = now_ns
        self._allow_faults = allow_faults
        self._world = World(())
        self._made = 0
        # Uids by kind and ``namespace/name``, or name if there is no namespace.
        self._uids: dict[tuple[str, str], str] = {}

    def node(
        self,
        name: str,
        cpu: str = "4",
        memory: str = "16Gi",
        *,
        labels: Mapping[str, str] | None = None,
        **more: str,
    ) -> Cluster:
        """Adds a node, or changes an existing one. Other resources are keyword arguments.

        In their names, ``_`` stands for a dot and ``__`` for a slash: ``nvidia_com__gpu``.
        """
        amounts = {"cpu": cpu, "memory": memory, "pods": "110", **_amounts(more)}
        return self.manifest(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": self._metadata("node", name, labels={**(labels or {})}),
                "status": {"allocatable": amounts, "capacity": amounts},
            }
        )

    def nodes(self, count: int, cpu: str = "4", memory: str = "16Gi", **more: Any) -> Cluster:
        """Adds nodes ``n1``, ``n2`` and so on."""
        for number in range(1, count + 1):
            self.node(f"n{number}", cpu, memory, **more)
        return self

    def queue(self, name: str, weight: int = 1, **spec: Any) -> Cluster:
        """Adds a queue with any field of a Queue's spec, or changes an existing one."""
        for field_ in spec:
            if field_ not in _QUEUE_FIELDS:
                near = get_close_matches(field_, _QUEUE_FIELDS, n=1) or sorted(_QUEUE_FIELDS)
                raise ValueError(
                    f"queue {name}: unknown field {field_}; allowed: {', '.join(near)}"
                )
        return self.manifest(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": self._metadata("queue", name),
                "spec": {"weight": weight, **spec},
                "status": {"state": "Open"},
            }
        )

    def priority_class(self, name: str, value: int) -> Cluster:
        return self.manifest(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": self._metadata("priority_class", name),
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
        """Adds a PodGroup and its pods ``name-0`` …; by default all of them form the gang."""
        if ("pod_group", f"{namespace}/{name}") in self._uids:
            raise ValueError(f"job {namespace}/{name}: already exists; choose another name")
        if ("queue", queue) not in self._uids:
            self.queue(queue)
        self._check_priority_class(name, priority_class)
        spec = {"minMember": pods if minimum is None else minimum, "queue": queue}
        if priority_class:
            spec["priorityClassName"] = priority_class
        self.manifest(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": self._metadata("pod_group", name, namespace=namespace),
                "spec": spec,
            }
        )
        requests = {"cpu": cpu, "memory": memory, **_amounts(more)}
        for number in range(pods):
            annotations = {"scheduling.k8s.io/group-name": name}
            metadata = self._metadata("pod", f"{name}-{number}", namespace=namespace)
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

    def _check_priority_class(self, job: str, name: str) -> None:
        known = [key for kind, key in self._uids if kind == "priority_class"]
        if name and name not in (*known, *_SYSTEM_CLASSES):
            held = ", ".join(sorted(known)) or "none yet"
            raise ValueError(f"job {job}: unknown priority class {name}; allowed: {held}")

    def manifest(self, body: Mapping[str, Any]) -> Cluster:
        """Adds any Kubernetes object that scheduling reads."""
        message = translate(dict(body))
        if message is None:
            raise ValueError(f"scheduling does not read objects of kind {body.get('kind')}")
        return self.add(message)

    def manifests(self, *files: Path | str | IO[str] | IO[bytes]) -> Cluster:
        """Adds the objects of YAML or JSON files, given as paths or open files."""
        found = translate_all(*(Path(file) if isinstance(file, str) else file for file in files))
        if found.errors:
            raise ValueError("; ".join(map(str, found.errors)))
        return self.add(*found.objects)

    def add(self, *objects: ClusterObject) -> Cluster:
        """Adds objects of the protocol."""
        rejected = self._core.upsert(*objects)
        if rejected:
            raise ValueError(
                "; ".join(
                    f"{Kind.Name(one.kind)} {one.key}: {one.field}: {one.reason}"
                    for one in rejected
                )
            )
        self._world.add(objects)
        for item in objects:
            kind = item.WhichOneof("object") or ""
            self._uids[kind, _key(getattr(item, kind))] = getattr(item, kind).uid
        return self

    def finish(self, job: str, namespace: str = "default") -> Cluster:
        """Sets all running pods of a job to Succeeded."""
        changed = self._world.finish(namespace, job)
        if not changed:
            raise ValueError(f"job {namespace}/{job}: has no running pod")
        self._core.upsert(*changed)
        return self

    def remove_job(self, job: str, namespace: str = "default") -> Cluster:
        """Deletes the PodGroup and the pods of a job."""
        for uid in self._world.pods_of(namespace, job):
            self.remove(KIND_POD, uid)
        return self._remove_named("pod_group", KIND_POD_GROUP, f"{namespace}/{job}")

    def remove_node(self, name: str) -> Cluster:
        """Deletes a node, but not its pods."""
        return self._remove_named("node", KIND_NODE, name)

    def _remove_named(self, word: str, kind: Kind.ValueType, key: str) -> Cluster:
        uid = self._uids.get((word, key))
        if uid is None:
            raise ValueError(f"{word.replace('_', ' ')} {key}: does not exist")
        return self.remove(kind, uid)

    def remove(self, kind: Kind.ValueType, uid: str) -> Cluster:
        """Deletes any object by uid."""
        self._core.delete(ObjectRef(kind=kind, uid=uid))
        self._world.remove(uid)
        self._uids = {key: held for key, held in self._uids.items() if held != uid}
        return self

    def _metadata(
        self, kind: str, name: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The metadata of a new object; creation times increase."""
        self._made += 1
        uid = self._uids.get((kind, f"{namespace}/{name}" if namespace else name))
        metadata: dict[str, Any] = {
            "name": name,
            "uid": uid or f"uid-{self._made:06d}",
            "creationTimestamp": datetime.fromtimestamp(1_767_225_600 + self._made, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
        }
        if namespace:
            metadata["namespace"] = namespace
        if labels:
            metadata["labels"] = dict(labels)
        return metadata

    def cycle(self, seconds: float = 1.0) -> Cycle:
        """Runs one session, then applies its decisions and advances the time.

        Raises PluginFaultError for a fault of a plugin or action, unless the cluster allows faults.
        """
        session = self._core.session(self.now_ns)
        faults = tuple(Fault.read(fault, self.now_ns) for fault in session.faults)
        if faults and not self._allow_faults:
            raise PluginFaultError(fault_text(faults))
        self.now_ns += int(seconds * _SECOND_NS)
        changes = self._world.apply(session.decisions, session.statuses)
        self._core.upsert(*changes.objects)
        self._core.delete(*changes.gone)
        return Cycle(
            {_pod(d.bind): d.bind.node for d in session.decisions if d.HasField("bind")},
            frozenset(_pod(d.evict) for d in session.decisions if d.HasField("evict")),
            self._world.phases(),
            {wait.job: _sentences(wait) for wait in session.waits},
            faults,
            tuple(session.decisions),
        )

    def cycles(self, count: int) -> list[Cycle]:
        return [self.cycle() for _ in range(count)]


def cluster(
    conf: str | Path = "", *, plugins: Sequence[type] = (), allow_faults: bool = False
) -> Cluster:
    """An empty cluster with a scheduler configuration (text, or a file), or the built-in one.

    ``plugins`` are classes of plugins that need not be installed. A fault of a plugin fails the
    test, unless ``allow_faults`` is set. Raises ValueError for an invalid configuration or plugin.
    """
    return Cluster(conf, plugins=plugins, allow_faults=allow_faults)


def core_with(conf: str, plugins: Sequence[type] = ()) -> LocalCore:
    """A core in this process. Raises ValueError for an invalid configuration or plugin."""
    try:
        return LocalCore(
            Configuration(scheduler_conf=conf), registry_with(plugins) if plugins else None
        )
    except PluginRefusedError as error:
        raise ValueError(str(error)) from None
    except ConfigurationRefusedError as error:
        problems = (f"{each.path or 'the file'}: {each.problem}" for each in error.problem_messages)
        raise ValueError(f"configuration: {'; '.join(problems)}") from None


def _key(item: Any) -> str:
    namespace = getattr(item, "namespace", "")
    return f"{namespace}/{item.name}" if namespace else str(item.name)


def _amounts(more: Mapping[str, str]) -> dict[str, str]:
    """``nvidia_com__gpu`` for ``nvidia.com/gpu``."""
    return {name.replace("__", "/").replace("_", "."): text for name, text in more.items()}


def _pod(order: Any) -> str:
    return f"{order.namespace}/{order.name}"


def _sentences(wait: Wait) -> tuple[str, ...]:
    return tuple(map(str, merge_tasks(map(Reason.from_proto, wait.reasons))))
