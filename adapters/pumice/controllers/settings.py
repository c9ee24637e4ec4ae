"""Settings of a controllers process, from its flags."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.adapters.kubernetes.options import LeaseOptions
from pumice.adapters.kubernetes.settings import lease_from, split
from pumice.controllers.flags import DEFAULT_WORKERS, WITHOUT_EFFECT, WORKER_FLAGS
from pumice.controllers.options import ControllerOptions, ShardingOptions
from pumice.controllers.registry import DEFAULT_SELECTION, selected
from pumice.controllers.runtime.loop import LoopOptions
from pumice.controllers.sharding.configuration import read_flags

# More concurrent calls do not make an API server faster. They delay its watches, and the API server
# ends a watch that falls behind.
_CONNECTIONS: Final = 16
_CALL_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ControllersSettings:
    """Settings of one process."""

    kubeconfig: str
    context: str
    master: str
    qps: float
    burst: int
    # Names of the selected controllers.
    controllers: tuple[str, ...]
    options: ControllerOptions
    loop: LoopOptions
    # None: the process leads without leader election.
    lease: LeaseOptions | None
    drain_seconds: float = 15.0
    metrics_address: str = ""
    health_address: str = ""
    # Sentences about given flags that have no effect.
    remarks: tuple[str, ...] = field(default=())
    connections: int = _CONNECTIONS


def settings_from(values: Mapping[str, Any]) -> ControllersSettings:
    """Settings from the values of flags. Raises ValueError."""
    lease = lease_from(values)
    return ControllersSettings(
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        master=values["master"],
        qps=values["kube_api_qps"],
        burst=values["kube_api_burst"],
        controllers=tuple(selected(split(values["controllers"]) or split([DEFAULT_SELECTION]))),
        options=ControllerOptions(
            scheduler_names=tuple(values["scheduler_name"]) or ("volcano",),
            inherits_annotations=values["inherit_owner_annotations"],
            sharding=_sharding(values),
        ),
        loop=LoopOptions(
            workers={name: values[_key(flag)] for name, flag in WORKER_FLAGS.items()},
            default_workers=DEFAULT_WORKERS,
            call_seconds=lease.call_seconds if lease is not None else _CALL_SECONDS,
        ),
        lease=lease,
        drain_seconds=values["drain_timeout"],
        metrics_address=values["listen_address"] if values["enable_metrics"] else "",
        health_address=values["healthz_address"] if values["enable_healthz"] else "",
        remarks=tuple(
            f"{flag} has no effect: {why}"
            for flag, why in WITHOUT_EFFECT.items()
            if values.get(_key(flag)) is not None
        ),
    )


def _sharding(values: Mapping[str, Any]) -> ShardingOptions:
    """Raises ValueError."""
    schedulers = tuple(split(values["scheduler_configs"])) or ShardingOptions().schedulers
    read_flags(schedulers)
    if values["shard_sync_period"] <= 0:
        raise ValueError("--shard-sync-period: allowed: a duration above 0, such as 60s")
    return ShardingOptions(
        schedulers,
        values["shard_sync_period"],
        values["enable_node_event_trigger"],
        values["sharding_configmap"],
        values["sharding_configmap_namespace"],
    )


def _key(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
