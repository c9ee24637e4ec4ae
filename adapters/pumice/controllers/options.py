"""Settings that controllers share."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ShardingOptions:
    """Settings of the sharding controller."""

    # Schedulers of a cluster without the ConfigMap, as `--scheduler-configs` writes them.
    schedulers: tuple[str, ...] = (
        "volcano:volcano:0.0:0.6:false:2:100",
        "agent-scheduler:agent:0.7:1.0:true:2:100",
    )
    # The nodes are divided again after this time.
    period_seconds: float = 60.0
    # Whether they are also divided when nodes change.
    follows_nodes: bool = True
    # The ConfigMap with the configuration; "": none.
    name: str = "volcano-sharding-configmap"
    namespace: str = "volcano-system"


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Settings of all controllers."""

    # Schedulers whose pods and jobs are managed; the first is the default of jobs that name none.
    scheduler_names: tuple[str, ...] = ("volcano",)
    # Whether PodGroups of pods take annotations of the pods' owners.
    inherits_annotations: bool = True
    sharding: ShardingOptions = field(default_factory=ShardingOptions)
