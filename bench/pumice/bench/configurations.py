"""Scheduler configurations of the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pumice.bench.clusters import Size
from pumice.core.configuration import DEFAULT_CONFIGURATION, Configuration
from pumice.core.registry import Registry
from pumice.server import configuration as served
from pumice.v1.configuration_pb2 import Configuration as ConfigurationMessage


@dataclass(frozen=True, slots=True)
class Profile:
    """A configuration, and what it requires of the generated cluster."""

    name: str = "default"
    configuration: Configuration = DEFAULT_CONFIGURATION
    # The configuration as text, for a core in another process; empty for Volcano's default.
    text: str = ""
    # Whether every queue has a parent below the root.
    queue_tree: bool = False
    # None: built-in plugins only.
    registry: Registry | None = None
    # Whether waiting gangs would fit on the nodes but exceed the quota of their queue; half of
    # them are not admitted.
    refuses_gangs: bool = False

    def sized(self, size: Size) -> Size:
        """The size with the queues of the configuration."""
        return replace(size, queue_tree=self.queue_tree)


DEFAULT = Profile()
_EVICTING = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: resourcequota
  - name: nodeorder
"""
_GANGS = _EVICTING.replace("preempt, reclaim", "gangpreempt, gangreclaim")
_QUOTA = _EVICTING.replace("preempt, reclaim", "gangpreempt, preempt")
_PACKING = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: sla
    arguments:
      sla-waiting-time: 1000000h
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 8
"""
_TOPOLOGY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: network-topology-aware
"""


_VGPU = _TOPOLOGY.replace(
    "  - name: network-topology-aware\n",
    """\
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
""",
)
_NUMA = _TOPOLOGY.replace("network-topology-aware", "numa-aware")


def read_profile(
    name: str, text: str, *, queue_tree: bool = False, registry: Registry | None = None
) -> Profile:
    """A profile from the text of a scheduler configuration."""
    message = ConfigurationMessage(scheduler_conf=text)
    read = served.read(message, registry or Registry())
    return Profile(name, read.scheduler, text, queue_tree, registry)


# Volcano's default with network topology.
TOPOLOGY = read_profile("topology", _TOPOLOGY)
# Volcano's default with shared GPUs, and with NUMA nodes.
VGPU, NUMA = read_profile("vgpu", _VGPU), read_profile("numa", _NUMA)
# In this order: Volcano's default; preempt, reclaim and capacity with a tree of queues; binpack and
# SLA; the gang actions instead of preempt and reclaim; gangpreempt, preempt and gangs above quota.
PROFILES: Mapping[str, Profile] = {
    DEFAULT.name: DEFAULT,
    "evicting": read_profile("evicting", _EVICTING, queue_tree=True),
    "packing": read_profile("packing", _PACKING),
    "gangs": read_profile("gangs", _GANGS, queue_tree=True),
    "quota": replace(read_profile("quota", _QUOTA, queue_tree=True), refuses_gangs=True),
}
