"""Plugins of Jobs, which change pods and create objects for a job."""

from collections.abc import Iterator, Mapping
from typing import Final

from pumice.controllers.job.plugins.frameworks import MpiPlugin, PytorchPlugin, TensorflowPlugin
from pumice.controllers.job.plugins.plain import EnvPlugin, RankPlugin
from pumice.controllers.job.plugins.plugin import JobObject, JobPlugin, PodContext
from pumice.controllers.job.plugins.ray import RayPlugin
from pumice.controllers.job.plugins.ssh import SshPlugin
from pumice.controllers.job.plugins.svc import SvcPlugin
from pumice.controllers.job.types import JobSpec

__all__ = ["JobObject", "PodContext", "job_plugins"]

# In the order in which they change a pod. The last one reads ranks that others have set.
PLUGINS: Final[Mapping[str, type[JobPlugin]]] = {
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
    """The plugins of a job, in a fixed order. Raises ValueError for an unknown plugin."""
    given = spec.plugins or {}
    if unknown := sorted(given.keys() - PLUGINS.keys()):
        allowed = ", ".join(PLUGINS)
        raise ValueError(f"spec.plugins: unknown plugin {unknown[0]!r}; allowed: {allowed}")
    for name, plugin in PLUGINS.items():
        if name in given:
            yield name, plugin(given[name] or ())
