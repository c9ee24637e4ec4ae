"""Manifests as a portal's users write them, and requests that contain them."""

from collections.abc import Mapping
from typing import Any

import yaml

from pumice.server.plugins import installed_registry
from pumice.server.whatif import trial
from pumice.v1 import job_result_pb2 as pb
from pumice.v1.scheduling_service_pb2 import (
    ClusterSource,
    InlineSource,
    ObjectSet,
    ScheduleRequest,
    ScheduleResponse,
)

NOW_NS = 1_800_000_000 * 10**9
Verdict = pb.JobVerdict.Name


def node(name: str, **labels: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def job(
    name: str, replicas: int = 1, queue: str = "default", minimum: int | None = None, **spec: Any
) -> dict[str, Any]:
    """A Volcano Job; ``spec`` has the requests of its container, and other fields of the pod."""
    requests = {"cpu": "1", **spec.pop("requests", {})}
    container = {"name": "main", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container], **spec}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "minAvailable": replicas if minimum is None else minimum,
            "queue": queue,
            "tasks": [{"replicas": replicas, "name": "w", "template": template}],
        },
    }


def manifest(*documents: Mapping[str, Any] | str, source: str = "job.yaml") -> pb.Manifest:
    texts = [d if isinstance(d, str) else yaml.safe_dump(dict(d)) for d in documents]
    return pb.Manifest(source=source, text="---\n".join(texts))


def inline(*documents: Mapping[str, Any] | str, **fields: Any) -> ScheduleRequest:
    objects = ObjectSet(manifests=[manifest(*documents)])
    return ScheduleRequest(request_id="r", inline=InlineSource(objects=objects), **fields)


def live(*documents: Mapping[str, Any] | str, **fields: Any) -> ScheduleRequest:
    source = ClusterSource(
        hypothetical=ObjectSet(manifests=[manifest(*documents)] if documents else []),
        removed_keys=fields.pop("removed_keys", ()),
        removed=fields.pop("removed", ()),
    )
    id_ = fields.pop("request_id", "r")
    return ScheduleRequest(request_id=id_, cluster=source, **fields)


def answer(request: ScheduleRequest, **limits: Any) -> ScheduleResponse:
    """What a core answers to a request that contains all its objects."""
    return trial.run_inline(request, installed_registry(), NOW_NS, **limits)


def verdicts(response: ScheduleResponse) -> dict[str, str]:
    return {each.job: Verdict(each.verdict).removeprefix("JOB_VERDICT_") for each in response.jobs}
