"""Short ways to write manifests and to read what became of them."""

from __future__ import annotations

from typing import Any

from pumice.manifests import ManifestError, translate
from pumice.v1 import group_pb2, node_pb2, pod_pb2, selector_pb2
from pumice.v1.object_pb2 import ClusterObject

VOLCANO = "scheduling.volcano.sh/v1beta1"

# How selectors read in a table.
_SIGNS = {
    selector_pb2.OPERATOR_IN: "in",
    selector_pb2.OPERATOR_NOT_IN: "notin",
    selector_pb2.OPERATOR_EXISTS: "exists",
    selector_pb2.OPERATOR_DOES_NOT_EXIST: "missing",
    selector_pb2.OPERATOR_GREATER_THAN: ">",
    selector_pb2.OPERATOR_LESS_THAN: "<",
}


def container(requests: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    resources = {} if requests is None else {"resources": {"requests": requests}}
    return {"name": "main", "image": "busybox:1", **resources, **fields}


def pod(
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a", "uid": "u", **metadata},
        "spec": {"containers": [container()], **(spec or {})},
        "status": status or {},
    }


def manifest(
    api_version: str, kind: str, body: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", **metadata},
        **(body or {}),
    }


def translated(document: dict[str, Any]) -> ClusterObject:
    found = translate(document)
    assert found is not None
    return found


def to_pod(document: dict[str, Any]) -> pod_pb2.Pod:
    return translated(document).pod


def to_spec(spec: dict[str, Any], **metadata: Any) -> pod_pb2.PodSpec:
    return to_pod(pod(spec, **metadata)).spec


def to_group(document: dict[str, Any]) -> group_pb2.PodGroup:
    return translated(document).pod_group


def to_node(document: dict[str, Any]) -> node_pb2.Node:
    return translated(document).node


def problem_of(document: dict[str, Any]) -> str:
    """The one line that says what is wrong; empty if nothing is."""
    try:
        translate(document, "file.yaml:1")
    except ManifestError as error:
        text = str(error)
        assert "\n" not in text
        return text.removeprefix("file.yaml:1: ")
    return ""


def said(selector: selector_pb2.LabelSelector) -> list[str]:
    return requirements_said(list(selector.requirements))


def requirements_said(requirements: list[selector_pb2.Requirement]) -> list[str]:
    return [
        f"{one.key} {_SIGNS[one.operator]} {','.join(one.values)}".strip() for one in requirements
    ]
