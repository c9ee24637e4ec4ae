"""The arguments of predicates."""

from __future__ import annotations

from pumice.core.configuration import Arguments, ArgumentType, boolean, ignored

_TO_DEVICESHARE = "Volcano moved it to the plugin deviceshare"
_NO_CAPACITY_SCORES = "free storage is no score, as without the gate StorageCapacityScoring"
_TO_STRATEGY_FIT = "Volcano moved it to the plugin resource-strategy-fit"


class PredicatesArguments(Arguments):
    """The filters that are switched on."""

    node_affinity = boolean(
        "predicate.NodeAffinityEnable", "checks node selectors and node affinity", default=True
    )
    ports = boolean("predicate.NodePortsEnable", "checks host ports", default=True)
    taints = boolean("predicate.TaintTolerationEnable", "checks taints", default=True)
    pod_affinity = boolean(
        "predicate.PodAffinityEnable", "checks affinity between pods", default=True
    )
    volume_limits = boolean(
        "predicate.NodeVolumeLimitsEnable", "checks how many volumes a node takes", default=True
    )
    volume_zones = boolean(
        "predicate.VolumeZoneEnable", "checks the zones of volumes", default=True
    )
    spread = boolean("predicate.PodTopologySpreadEnable", "checks spread constraints", default=True)
    volume_binding = boolean(
        "predicate.VolumeBindingEnable", "checks whether volumes can be bound", default=True
    )
    caches = boolean("predicate.CacheEnable", "caches results for equal pods", default=False)
    claims = ignored(
        "predicate.DynamicResourceAllocationEnable",
        "Volcano never reads it either",
        ArgumentType.BOOL,
    )
    bind_timeout = ignored(
        "volumebinding.bindTimeoutSeconds",
        "the adapter bounds how long a bind may take",
        ArgumentType.INT,
    )
    capacity_weight = ignored("volumebinding.weight", _NO_CAPACITY_SCORES, ArgumentType.INT)
    capacity_shape = ignored("volumebinding.shape", _NO_CAPACITY_SCORES, ArgumentType.LIST)
    claims_timeout = ignored(
        "dynamicresources.filterTimeoutSeconds",
        "the search for devices is bounded by steps, not by time",
        ArgumentType.INT,
    )
    gpu_sharing = ignored("predicate.GPUSharingEnable", _TO_DEVICESHARE)
    gpu_number = ignored("predicate.GPUNumberEnable", _TO_DEVICESHARE)
    proportional = ignored("predicate.ProportionalEnable", _TO_STRATEGY_FIT)
    proportions = ignored("predicate.resources*", _TO_STRATEGY_FIT)
