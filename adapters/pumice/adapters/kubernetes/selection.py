"""Selects the objects of a cluster that this scheduler works with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.sharding import Shard
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, KIND_POD_GROUP, ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_FAILED, POD_PHASE_SUCCEEDED

_FINISHED = (POD_PHASE_SUCCEEDED, POD_PHASE_FAILED)
_UNFINISHED = ("status.phase!=Succeeded", "status.phase!=Failed")


@dataclass(frozen=True, slots=True)
class Source:
    """A resource with field and label selectors, which one reflector lists and watches."""

    resource: Resource
    field_selector: str = ""
    label_selector: str = ""

    @property
    def shown(self) -> str:
        name = self.resource.full_name
        selectors = ",".join(filter(None, (self.field_selector, self.label_selector)))
        return f"{name} ({selectors})" if selectors else name


@dataclass(frozen=True, slots=True)
class Selection:
    """Scheduler names, node labels and, with several schedulers, the shard of this scheduler."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    # Nodes with any of these (key, value) pairs are selected; without pairs, all nodes are.
    node_labels: tuple[tuple[str, str], ...] = ()
    shard: Shard | None = None

    def selects(self, item: ClusterObject, owner: str) -> bool:
        """Whether an object is selected. ``owner`` is the name of its first owner, or its own."""
        match item.WhichOneof("object"):
            case "pod":
                return self._selects_pod(item, owner)
            case "node":
                node = item.node
                labels = node.labels
                return self._in_shard(node.name) and (
                    not self.node_labels
                    or any(labels.get(key) == value for key, value in self.node_labels)
                )
            case "pod_group":
                return self._in_shard(owner)
            case _:
                return True

    def _selects_pod(self, item: ClusterObject, owner: str) -> bool:
        pod = item.pod
        if pod.spec.scheduler_name in self.scheduler_names and self._in_shard(owner):
            return True
        # Finished pods of other schedulers use no resources.
        return bool(pod.node_name) and pod.phase not in _FINISHED and self._in_shard(pod.node_name)

    def _in_shard(self, key: str) -> bool:
        return self.shard is None or self.shard.has(key)

    def sources(self, resources: Iterable[Resource]) -> list[Source]:
        """The sources to watch. Of other schedulers, pods with a node are watched until they finish.

        The server reports a finished pod as deleted to a watch with such a selector.
        """
        found: list[Source] = []
        for resource in resources:
            if resource.kind != KIND_POD:
                found.append(Source(resource))
                continue
            found += [Source(resource, f"spec.schedulerName={n}") for n in self.scheduler_names]
            others = [f"spec.schedulerName!={name}" for name in self.scheduler_names]
            found.append(Source(resource, ",".join(["spec.nodeName!=", *others, *_UNFINISHED])))
        return found


# Kinds of which only some objects are selected.
FILTERED = frozenset({KIND_NODE, KIND_POD, KIND_POD_GROUP})


def parse_node_labels(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Reads pairs of `key:value`, separated by commas. Raises ValueError."""
    pairs = []
    for text in (part.strip() for given in texts for part in given.split(",")):
        if not text:
            continue
        key, colon, value = text.partition(":")
        if not colon or not key.strip():
            raise ValueError(f"{text!r} is not of the form key:value")
        pairs.append((key.strip(), value.strip()))
    return tuple(pairs)
