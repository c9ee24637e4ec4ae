"""The settings of the cache."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.core.cache.shards import ShardingMode

# Shared devices of a node are known only from updates of the node after the first session.
LATE_DEVICES = "late-devices"


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Which pods are scheduled, and which queue a job without a queue gets."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    default_queue: str = "default"
    # CSI drivers whose volumes are not counted against a node's limits.
    ignored_provisioners: tuple[str, ...] = ("rancher.io/local-path", "hostpath.csi.k8s.io")
    # Volcano's feature gates that are switched on, by their names.
    feature_gates: tuple[str, ...] = ()
    # Switches of the compatibility page that are on.
    compat: tuple[str, ...] = ()
    # Whether nodes outside this scheduler's NodeShard may be used, and the name of the NodeShard.
    sharding_mode: ShardingMode = ShardingMode.NONE
    shard_name: str = "volcano"
    # Resources that do not count as requests of pods; the engine gets them from its plugins.
    ignored_resources: tuple[str, ...] = ()
