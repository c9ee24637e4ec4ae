"""The commands for objects of a cluster: `pumice job`, `pumice queue` and others."""

from pumice.controllers.vcctl.flow_commands import jobflow_group, jobtemplate_group
from pumice.controllers.vcctl.job_commands import job_group
from pumice.controllers.vcctl.pod_commands import pod_group, podgroup_group
from pumice.controllers.vcctl.queue_commands import queue_group
from pumice.controllers.vcctl.short_commands import (
    vcancel,
    vjobs,
    vqueues,
    vresume,
    vsub,
    vsuspend,
)

__all__ = [
    "job_group",
    "jobflow_group",
    "jobtemplate_group",
    "pod_group",
    "podgroup_group",
    "queue_group",
    "vcancel",
    "vjobs",
    "vqueues",
    "vresume",
    "vsub",
    "vsuspend",
]
