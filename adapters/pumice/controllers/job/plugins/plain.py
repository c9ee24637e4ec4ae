"""Plugins that set the index or the rank of a pod: env, and hcclrank for Ascend devices."""

from collections.abc import Mapping
from typing import ClassVar, Final

from pumice.controllers.job.plugins.plugin import JobPlugin, PodContext, Value, containers
from pumice.controllers.runtime.objects import Manifest

_INDEXES: Final = ("VK_TASK_INDEX", "VC_TASK_INDEX")
_RANK: Final = "hccl/rankIndex"


class EnvPlugin(JobPlugin):
    """Sets environment variables with the index of a pod in its task."""

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        for container in containers(body, init=True):
            container["env"] += [{"name": name, "value": str(context.index)} for name in _INDEXES]


class RankPlugin(JobPlugin):
    """Sets an annotation with the rank of a pod, unless the pod has the annotation."""

    defaults: ClassVar[Mapping[str, Value]] = {"master": "master", "worker": "worker"}

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        annotations = body["metadata"]["annotations"]
        rank = self._rank(context, body)
        if rank and _RANK not in annotations:
            annotations[_RANK] = rank

    def _rank(self, context: PodContext, body: Manifest) -> str:
        """The variable RANK, which other plugins may set; else the rank that follows from the task."""
        for container in containers(body, init=False):
            for variable in container["env"]:
                if variable.get("name") == "RANK" and variable.get("value"):
                    return str(variable["value"])
        if context.task.name == self._text("master"):
            return str(context.index)
        if context.task.name == self._text("worker"):
            master = context.task_of(self._text("master"))
            return str((master.replicas if master is not None else 0) + context.index)
        return ""
