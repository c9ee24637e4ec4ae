"""Options of controllers."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ShardingOptions:
    """Options of the sharding controller."""

    # Schedulers of a cluster without the ConfigMap, in the format of `--scheduler-configs`.
    schedulers: tuple[str, ...] = (
        "volcano:volcano:0.0:0.6:false:2:100",
        "agent-scheduler:agent:0.7:1.0:true:2:100",
    )
    # Interval between divisions of the nodes.
    period_seconds: float = 60.0
    # Whether the nodes are also divided when nodes change.
    follows_nodes: bool = True
    # The ConfigMap with the configuration; "": none.
    name: str = "volcano-sharding-configmap"
    namespace: str = "volcano-system"


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Options of all controllers."""

    # Schedulers whose pods and jobs are managed; the first one is the default of jobs.
    scheduler_names: tuple[str, ...] = ("volcano",)
    # Whether PodGroups inherit annotations of the pods' owners.
    inherits_annotations: bool = True
    sharding: ShardingOptions = field(default_factory=ShardingOptions)
