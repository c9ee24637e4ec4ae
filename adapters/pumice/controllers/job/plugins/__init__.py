"""Plugins of Jobs: what they add to pods, and the objects that they make for a job."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pumice.controllers.job.plugins.context import JobObject, JobPlugin, PodContext
from pumice.controllers.job.plugins.frameworks import MpiPlugin, PytorchPlugin, TensorflowPlugin
from pumice.controllers.job.plugins.plain import EnvPlugin, RankPlugin
from pumice.controllers.job.plugins.ray import RayPlugin
from pumice.controllers.job.plugins.ssh import SshPlugin
from pumice.controllers.job.plugins.svc import SvcPlugin
from pumice.controllers.job.types import JobSpec

__all__ = ["JobObject", "PodContext", "apply_plugins", "job_plugins"]

# In the order in which they change a pod: ranks are read from what others have set.
PLUGINS: Final[Mapping[str, Callable[[list[str]], JobPlugin]]] = {
    "env": EnvPlugin,
    "svc": SvcPlugin,
    "ssh": SshPlugin,
    "tensorflow": TensorflowPlugin,
    "mpi": MpiPlugin,
    "pytorch": PytorchPlugin,
    "ray": RayPlugin,
    "hcclrank": RankPlugin,
}


def job_plugins(spec: JobSpec) -> Iterator[tuple[str, JobPlugin]]:
    """The plugins of a job, in a fixed order. Raises ValueError for an unknown one."""
    given = spec.plugins or {}
    if unknown := sorted(given.keys() - PLUGINS.keys()):
        allowed = ", ".join(PLUGINS)
        raise ValueError(f"spec.plugins: unknown plugin {unknown[0]!r}; allowed: {allowed}")
    for name, make in PLUGINS.items():
        if name in given:
            yield name, make(list(given[name] or ()))


def apply_plugins(context: PodContext, body: dict[str, object]) -> None:
    """Applies all plugins of a job to a pod that is about to be created."""
    for _, plugin in job_plugins(context.spec):
        plugin.change_pod(context, body)
