"""Converts the flags of an adapter process to settings."""

import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pumice.adapters.kubernetes.flags import (
    ALL_ALPHA,
    CORE_GATES,
    DEFAULT_SHARD,
    GATES,
    UNUSED_VARIABLES,
    WITHOUT_EFFECT,
)
from pumice.adapters.kubernetes.options import (
    ConfigMapKey,
    KubernetesOptions,
    LeaseOptions,
    unwatched_kinds,
)
from pumice.adapters.kubernetes.selection import Selection, parse_node_labels
from pumice.adapters.kubernetes.sharding import Shard, shard_from
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.shadow.options import ShadowOptions
from pumice.patterns.golang import parse_bool
from pumice.v1 import configuration_pb2

_CONNECTIONS = 32
_WAITING_REPORT_SECONDS = 0.5
_DEBUG_VERBOSITY = 5


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """Settings of one adapter process."""

    kubeconfig: str
    context: str
    master: str
    qps: float
    burst: int
    world: KubernetesOptions
    runtime: RuntimeOptions
    # None: it leads without an election.
    lease: LeaseOptions | None
    # `host:port` or `:port`; empty: not served.
    metrics_address: str = ""
    health_address: str = ""
    # Remarks about flags without effect.
    remarks: tuple[str, ...] = ()
    # Namespace and name of the lease, for the name of the stored configuration; None: not stored.
    kept_configuration: tuple[str, str] | None = None
    # Time without a response of the core until the lease is released.
    core_timeout_seconds: float = 10.0
    connections: int = _CONNECTIONS
    # None: not a shadow.
    shadow: ShadowOptions | None = None


def settings_from(
    values: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> AdapterSettings:
    """Settings from the values of flags. Raises ValueError."""
    environment = os.environ if environment is None else environment
    shard = shard_from(environment)
    gates = parse_gates(values["feature_gates"])
    shadow = _shadow(values)
    shard_name = _shard_name(values, shard)
    lease = lease_from(values, shard_name) if shadow is None else None
    apply_seconds = values["apply_timeout"]
    world = KubernetesOptions(
        selection=Selection(
            scheduler_names=_scheduler_names(values),
            node_labels=parse_node_labels(values["node_selector"]),
            shard=shard,
        ),
        configuration=_configuration(values, gates),
        scheduler_conf=values["scheduler_conf"],
        config_map=_config_map(values),
        default_queue=values["default_queue"],
        make_queues=values["make_queues"] and shadow is None,
        read_only=shadow is not None,
        unwatched=unwatched_kinds(
            gates,
            priority_class=values["priority_class"],
            csi_storage=values["csi_storage"],
            sharding=values["scheduler_sharding_mode"] != "none",
        ),
        call_seconds=lease.call_seconds if lease is not None else 10.0,
        volume_seconds=apply_seconds * 0.8,
    )
    return AdapterSettings(
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        master=values["master"],
        qps=values["kube_api_qps"],
        burst=values["kube_api_burst"],
        world=world,
        runtime=RuntimeOptions(
            cluster=_cluster(values["cluster"], shard_name, shadow),
            adapter_id=values["adapter_id"] or socket.gethostname(),
            calls_in_flight=_CONNECTIONS,
            apply_timeout_seconds=apply_seconds,
            waiting_report_seconds=_WAITING_REPORT_SECONDS,
            shutdown_timeout_seconds=values["drain_timeout"],
            scheduler_names=_scheduler_names(values) if shadow is None else (),
            other_scheduler_check_seconds=values["other_scheduler_check"],
            default_configuration=not values["disable_default_scheduler_config"],
        ),
        lease=lease,
        metrics_address=values["listen_address"] if values["enable_metrics"] else "",
        health_address=values["healthz_address"] if values["enable_healthz"] else "",
        remarks=_remarks(values, gates, environment),
        kept_configuration=None if shadow is not None else lease_key(values, shard_name),
        core_timeout_seconds=values["core_timeout"],
        shadow=shadow,
    )


def _scheduler_names(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(values["scheduler_name"]) or ("volcano",)


def _shadow(values: Mapping[str, Any]) -> ShadowOptions | None:
    if not values["shadow"]:
        return None
    wait = values["shadow_wait"]
    if wait >= values["apply_timeout"]:
        raise ValueError("--shadow-wait must be shorter than --apply-timeout")
    return ShadowOptions(
        scheduler="/".join(values["scheduler_name"]) or "volcano",
        wait_seconds=wait,
        report=values["shadow_report"],
        every_seconds=values["shadow_every"],
    )


def _shard_name(values: Mapping[str, Any], shard: Shard | None) -> str:
    """The name that distinguishes this scheduler from others of the cluster; empty: the default."""
    if shard is not None:
        return shard.name
    name = str(values["scheduler_sharding_name"])
    is_default = name == DEFAULT_SHARD or values["scheduler_sharding_mode"] == "none"
    return "" if is_default else name


def _cluster(name: str, shard: str, shadow: ShadowOptions | None) -> str:
    if shadow is not None:
        # A core that also serves the cluster must not treat the shadow as a new leader.
        name = f"{name}-shadow"
    # For a shared core, each of several schedulers is a separate cluster.
    return f"{name}-{shard}" if shard else name


def _config_map(values: Mapping[str, Any]) -> ConfigMapKey | None:
    text = values["scheduler_configmap"]
    if not text:
        return None
    if values["scheduler_conf"] is not None:
        raise ValueError("--scheduler-conf and --scheduler-configmap exclude each other")
    return ConfigMapKey.parse(text)


def lease_key(values: Mapping[str, Any], shard_name: str = "") -> tuple[str, str]:
    namespace = values["lock_object_namespace"] or values["leader_elect_resource_namespace"]
    name = values["leader_elect_resource_name"]
    # Schedulers that share a cluster lead at the same time, each with its own lease.
    return namespace, f"{name}-{shard_name}" if shard_name else name


def lease_from(values: Mapping[str, Any], shard_name: str = "") -> LeaseOptions | None:
    if not values["leader_elect"]:
        return None
    namespace, name = lease_key(values, shard_name)
    return LeaseOptions(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        namespace=namespace,
        name=name,
        duration_seconds=values["leader_elect_lease_duration"],
        renew_deadline_seconds=values["leader_elect_renew_deadline"],
        retry_period_seconds=values["leader_elect_retry_period"],
    )


def _configuration(
    values: Mapping[str, Any], gates: Mapping[str, bool]
) -> configuration_pb2.Configuration:
    configuration = configuration_pb2.Configuration(
        default_queue=values["default_queue"],
        scheduler_names=values["scheduler_name"],
        eager=values["eager"],
        compat=values["compat"],
        ignored_provisioners=split(values["ignored_provisioners"]),
        sharding_mode=configuration_pb2.ShardingMode.Value(
            f"SHARDING_MODE_{values['scheduler_sharding_mode'].upper()}"
        ),
        sharding_name=values["scheduler_sharding_name"],
        # The other gates affect only what the adapter watches.
        feature_gates={name: on for name, on in gates.items() if name in CORE_GATES},
    )
    configuration.schedule_period.FromNanoseconds(round(values["schedule_period"] * 1e9))
    configuration.apply_timeout.FromNanoseconds(round(values["apply_timeout"] * 1e9))
    if values["gang_bind_deadline"]:
        nanoseconds = round(values["gang_bind_deadline"] * 1e9)
        configuration.gang_bind_deadline.FromNanoseconds(nanoseconds)
    return configuration


def _remarks(
    values: Mapping[str, Any], gates: Mapping[str, bool], environment: Mapping[str, str]
) -> tuple[str, ...]:
    flags = (
        f"{flag} has no effect: {why}"
        for flag, why in WITHOUT_EFFECT.items()
        if values.get(flag.removeprefix("--").replace("-", "_")) is not None
    )
    unused_gates = (
        f"--feature-gates: {gate} has no effect in this scheduler"
        for gate in gates
        if gate not in GATES
    )
    variables = (
        f"the environment variable {name} has no effect"
        for name in UNUSED_VARIABLES
        if environment.get(name)
    )
    return (*flags, *unused_gates, *variables)


def log_level(values: Mapping[str, Any]) -> str:
    """The log level, from --log-level and klog's verbosity."""
    # Values may have a leading equals sign.
    verbosity = values["verbosity"].removeprefix("=")
    is_debug = verbosity.isdigit() and int(verbosity) >= _DEBUG_VERBOSITY
    return "debug" if is_debug else str(values["log_level"])


def split(texts: Sequence[str]) -> list[str]:
    """The elements of a list flag as in Go, which is repeated or has commas."""
    return [part for text in texts for part in text.split(",") if part]


def parse_gates(texts: Sequence[str]) -> dict[str, bool]:
    """Reads `Name=true,Other=false`. Raises ValueError."""
    gates: dict[str, bool] = {}
    for part in split(texts):
        name, equals, text = part.partition("=")
        value = parse_bool(text)
        if not name or not equals or value is None:
            raise ValueError(f"--feature-gates: {part!r} is not of the form Name=true")
        gates[name] = value
    if ALL_ALPHA in gates:
        gates = dict.fromkeys(GATES, gates.pop(ALL_ALPHA)) | gates
    return gates
