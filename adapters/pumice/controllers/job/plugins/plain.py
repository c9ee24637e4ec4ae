"""Plugins that only tell a pod its place: env, and hcclrank for Ascend devices."""

from typing import Final

from pumice.controllers.job.plugins.arguments import parse
from pumice.controllers.job.plugins.context import JobObject, PodContext, containers
from pumice.controllers.job.types import Job, JobSpec
from pumice.controllers.runtime.objects import Manifest

_INDEXES: Final = ("VK_TASK_INDEX", "VC_TASK_INDEX")
_RANK: Final = "hccl/rankIndex"


class EnvPlugin:
    """Sets the index of a pod in its task as environment variables."""

    def __init__(self, arguments: list[str]) -> None:
        self.problem = parse(arguments, {}).problem

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        return []

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        for container in containers(body, init=True):
            container["env"] += [{"name": name, "value": str(context.index)} for name in _INDEXES]


class RankPlugin:
    """Sets the rank of a pod as an annotation."""

    def __init__(self, arguments: list[str]) -> None:
        given = parse(arguments, {"master": "master", "worker": "worker"})
        self.problem = given.problem
        self._master, self._worker = given.text("master"), given.text("worker")

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        return []

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        annotations = body["metadata"]["annotations"]
        rank = self._rank(context, body)
        if rank and _RANK not in annotations:
            annotations[_RANK] = rank

    def _rank(self, context: PodContext, body: Manifest) -> str:
        for container in containers(body, init=False):
            for variable in container["env"]:
                if variable.get("name") == "RANK" and variable.get("value"):
                    return str(variable["value"])
        if context.task.name == self._master:
            return str(context.index)
        if context.task.name == self._worker:
            master = context.task_of(self._master)
            return str((master.replicas if master is not None else 0) + context.index)
        return ""
