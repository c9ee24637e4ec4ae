"""Rows of a scenario's tables as Kubernetes manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

Manifest = dict[str, Any]
Row = Mapping[str, str]

GROUP = "scheduling.volcano.sh/v1beta1"
NAMESPACE = "default"
# Columns of nodes, jobs and pods that are amounts, besides every name with a slash in it.
AMOUNTS = ("cpu", "memory", "pods", "ephemeral-storage")


class Tables:
    """Creates manifests, with uids and with creation times in the order of the file."""

    def __init__(self) -> None:
        self._age = count(1)
        self._readers: dict[str, Callable[[str, Row], Iterator[Manifest]]] = {
            "nodes": self._node,
            "queues": self._queue,
            "jobs": self._job,
            "pods": self._pod,
            "classes": self._class,
            "quotas": self._quota,
            "hypernodes": self._hyper_node,
        }

    @property
    def kinds(self) -> list[str]:
        return list(self._readers)

    def read(self, table: str, name: str, row: Row) -> list[Manifest]:
        unknown = set(row) - KNOWN_COLUMNS[table]
        unknown = {c for c in unknown if not (table in AMOUNT_TABLES and _is_amount(c))}
        assert not unknown, f"{table} have no column {sorted(unknown)}; known: {KNOWN_COLUMNS}"
        # A dash is an empty cell.
        cells = {column: cell for column, cell in row.items() if cell != "-"}
        return list(self._readers[table](name, cells))

    def _metadata(self, kind: str, name: str, *, namespaced: bool = True) -> Manifest:
        namespace, _, short = name.rpartition("/")
        age = next(self._age)
        metadata: Manifest = {
            "name": short,
            "uid": f"{kind}/{name}",
            "creationTimestamp": f"2026-01-01T{age // 3600:02}:{age // 60 % 60:02}:{age % 60:02}Z",
        }
        if namespaced:
            metadata["namespace"] = namespace or NAMESPACE
        return metadata

    def whole(self, manifest: Manifest) -> Manifest:
        """An object that is given whole, with what the API server fills in."""
        given = manifest["metadata"]
        metadata = self._metadata(manifest["kind"], given["name"])
        return {**manifest, "metadata": {**metadata, **given}}

    def _node(self, name: str, row: Row) -> Iterator[Manifest]:
        metadata = self._metadata("Node", name, namespaced=False)
        if "annotation" in row:
            key, _, value = row["annotation"].partition("=")
            metadata["annotations"] = {key: value}
        metadata["labels"] = {"kubernetes.io/hostname": name, **pairs(row.get("labels", ""))}
        amounts = {"memory": "64Gi", "pods": "110", **_amounts(row)}
        spec: Manifest = {}
        if "taints" in row:
            spec["taints"] = [_taint(text) for text in row["taints"].split(",")]
        if row.get("unschedulable") == "yes":
            spec["unschedulable"] = True
        status = {"allocatable": amounts, "capacity": amounts}
        yield _object("v1", "Node", metadata, spec, status)

    def _queue(self, name: str, row: Row) -> Iterator[Manifest]:
        spec: Manifest = {"weight": int(row.get("weight", "1"))}
        for key in ("capability", "deserved"):
            if key in row:
                spec[key] = pairs(row[key])
        if "guarantee" in row:
            spec["guarantee"] = {"resource": pairs(row["guarantee"])}
        if "parent" in row:
            spec["parent"] = row["parent"]
        if "priority" in row:
            spec["priority"] = int(row["priority"])
        if "reclaimable" in row:
            spec["reclaimable"] = row["reclaimable"] == "yes"
        metadata = self._metadata("Queue", name, namespaced=False)
        metadata["annotations"] = pairs(row.get("annotations", ""))
        yield _object(GROUP, "Queue", metadata, spec, {"state": row.get("state", "Open")})

    def _class(self, name: str, row: Row) -> Iterator[Manifest]:
        metadata = self._metadata("PriorityClass", name, namespaced=False)
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": metadata,
            "value": int(row["value"]),
            "globalDefault": row.get("default") == "yes",
        }

    def _quota(self, name: str, row: Row) -> Iterator[Manifest]:
        status = {"hard": pairs(row["hard"]), "used": pairs(row.get("used", ""))}
        metadata = self._metadata("ResourceQuota", name)
        yield _object("v1", "ResourceQuota", metadata, {"hard": status["hard"]}, status)

    def _hyper_node(self, name: str, row: Row) -> Iterator[Manifest]:
        spec: Manifest = {
            "tier": int(row["tier"]),
            "members": [_member(text) for text in row["members"].split(",")],
        }
        if "called" in row:
            spec["tierName"] = row["called"]
        metadata = self._metadata("HyperNode", name, namespaced=False)
        yield _object("topology.volcano.sh/v1alpha1", "HyperNode", metadata, spec, {})

    def _job(self, name: str, row: Row) -> Iterator[Manifest]:
        tasks = int(row.get("tasks", "1"))
        nodes = row["on"].split(",") if "on" in row else []
        metadata = self._metadata("PodGroup", name)
        metadata["annotations"] = pairs(row.get("annotations", ""))
        spec: Manifest = {
            "minMember": int(row.get("min", str(tasks))),
            "queue": row.get("queue", "default"),
        }
        if "minimum" in row:
            spec["minResources"] = pairs(row["minimum"])
        if "roles" in row:
            spec["minTaskMember"] = {r: int(n) for r, n in pairs(row["roles"]).items()}
        if "within" in row:
            spec["networkTopology"] = _topology(row["within"])
        if "part" in row:
            spec["subGroupPolicy"] = [_parts(row)]
        if "priority" in row:
            class_name = f"priority-{row['priority']}"
            spec["priorityClassName"] = class_name
            yield from self._class(class_name, {"value": row["priority"]})
        phase = row.get("phase", "Running" if nodes else "Pending")
        yield _object(GROUP, "PodGroup", metadata, spec, {"phase": phase})
        own = {c: cell for c, cell in row.items() if _is_amount(c) or c in _POD_COLUMNS}
        for index in range(tasks):
            pod = {**own, "job": name}
            pod.pop("on", None)
            if index < len(nodes):
                pod["on"] = nodes[index]
            if "part" in row:
                pod["labels"] = f"part={index // int(row['part'])}"
            yield from self._pod(f"{name}-{index}", pod)

    def _pod(self, name: str, row: Row) -> Iterator[Manifest]:
        metadata = self._metadata("Pod", name)
        metadata["labels"] = pairs(row.get("labels", ""))
        metadata["annotations"] = pairs(row.get("annotations", ""))
        if "job" in row:
            metadata["annotations"]["scheduling.k8s.io/group-name"] = row["job"].rpartition("/")[2]
        if "role" in row:
            metadata["annotations"]["volcano.sh/task-spec"] = row["role"]
        if "preemptable" in row:
            preemptable = "true" if row["preemptable"] == "yes" else "false"
            metadata["annotations"]["volcano.sh/preemptable"] = preemptable
        amounts = _amounts(row)
        # Extended resources have equal limits.
        limits = {k: v for k, v in amounts.items() if "/" in k or row.get("guaranteed") == "yes"}
        resources = {"requests": amounts, "limits": limits}
        container: Manifest = {"name": "main", "resources": resources}
        if "port" in row:
            container["ports"] = [{"hostPort": int(row["port"]), "containerPort": 80}]
        spec: Manifest = {
            "schedulerName": row.get("scheduler", "volcano"),
            "containers": [container],
            **_placement(row),
        }
        phase = row.get("state", "Running" if "on" in row else "Pending")
        yield _object("v1", "Pod", metadata, spec, {"phase": phase})


_POD_COLUMNS = {
    *("annotations", "away", "gate", "guaranteed", "labels", "near", "on", "port", "preemptable"),
    *("role", "scheduler", "selector", "state", "tolerate"),
}
AMOUNT_TABLES = {"nodes", "jobs", "pods"}
KNOWN_COLUMNS = {
    "nodes": {"annotation", "labels", "taints", "unschedulable"},
    "queues": {
        *("annotations", "capability", "deserved", "guarantee", "parent", "priority"),
        *("reclaimable", "state", "weight"),
    },
    "classes": {"default", "value"},
    "quotas": {"hard", "used"},
    "hypernodes": {"called", "members", "tier"},
    "jobs": {
        *("min", "minimum", "part", "part-within", "parts", "phase", "priority", "queue"),
        *("roles", "tasks", "within"),
        *_POD_COLUMNS,
    },
    "pods": {"job", *_POD_COLUMNS},
}


def _placement(row: Row) -> Manifest:
    """The parts of a pod's spec about its node, selectors and affinities."""
    spec: Manifest = {}
    if "on" in row:
        spec["nodeName"] = row["on"]
    if "selector" in row:
        spec["nodeSelector"] = pairs(row["selector"])
    if "tolerate" in row:
        spec["tolerations"] = [
            {"key": key, "operator": "Exists"} for key in row["tolerate"].split(",")
        ]
    if "gate" in row:
        spec["schedulingGates"] = [{"name": row["gate"]}]
    affinity = {
        word: {"requiredDuringSchedulingIgnoredDuringExecution": [_near(row[column])]}
        for column, word in (("near", "podAffinity"), ("away", "podAntiAffinity"))
        if column in row
    }
    return {**spec, "affinity": affinity} if affinity else spec


def _member(text: str) -> Manifest:
    """``n1``, ``/n[12]/`` or ``rack=r1`` for nodes, ``@leaf`` for a HyperNode."""
    if text.startswith("@"):
        return {"type": "HyperNode", "selector": {"exactMatch": {"name": text[1:]}}}
    selector: Manifest = {"exactMatch": {"name": text}}
    if text.startswith("/"):
        selector = {"regexMatch": {"pattern": text.strip("/")}}
    elif "=" in text:
        selector = {"labelMatch": {"matchLabels": pairs(text)}}
    return {"type": "Node", "selector": selector}


def _topology(text: str) -> Manifest:
    """``hard:1``, ``hard:rack`` with the name of a tier, or ``soft``."""
    mode, _, tier = text.partition(":")
    if not tier:
        return {"mode": mode}
    key = "highestTierAllowed" if tier.isdigit() else "highestTierName"
    return {"mode": mode, key: int(tier) if tier.isdigit() else tier}


def _parts(row: Row) -> Manifest:
    """Sub-groups of ``part`` pods each, of which ``parts`` are needed, each ``part-within`` a tier."""
    policy: Manifest = {
        "name": "parts",
        "matchLabelKeys": ["part"],
        "subGroupSize": int(row["part"]),
    }
    if "parts" in row:
        policy["minSubGroups"] = int(row["parts"])
    if "part-within" in row:
        policy["networkTopology"] = _topology(row["part-within"])
    return policy


def _near(text: str) -> Manifest:
    """``app=web@zone``: pods with the label, within one value of the topology key."""
    label, _, key = text.partition("@")
    return {"labelSelector": {"matchLabels": pairs(label)}, "topologyKey": key}


def _object(
    api_version: str, kind: str, metadata: Manifest, spec: Manifest, status: Manifest
) -> Manifest:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def pairs(text: str) -> dict[str, str]:
    """``cpu=2,memory=1Gi`` as a mapping."""
    return {k: v for k, _, v in (item.partition("=") for item in text.split(",") if item)}


def _is_amount(column: str) -> bool:
    return column in AMOUNTS or "/" in column


def _amounts(row: Row) -> dict[str, str]:
    return {column: cell for column, cell in row.items() if _is_amount(column)}


def _taint(text: str) -> dict[str, str]:
    """``key=value:NoSchedule`` or ``key:NoSchedule``."""
    what, _, effect = text.partition(":")
    key, _, value = what.partition("=")
    return {"key": key, "value": value, "effect": effect}
