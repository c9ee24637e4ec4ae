"""Names that have, or had, a meaning in Volcano, so that they are not reported as typos."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.core.configuration.argument_types import ArgumentType, Limit
from pumice.core.configuration.arguments import Arguments, boolean, duration, ignored, text

_SAMPLING = "every node is looked at"
# Top-level keys that users write, though Volcano has flags for them.
KEYS_WITHOUT_EFFECT: Mapping[str, str] = {
    "percentageNodesToFind": _SAMPLING,
    "percentageOfNodesToFind": _SAMPLING,
    "minimumFeasibleNodes": _SAMPLING,
    "minimumPercentageNodesToFind": _SAMPLING,
    "minNodesToFind": _SAMPLING,
    "minPercentageOfNodesToFind": _SAMPLING,
}
FLAGS_WITHOUT_EFFECT: Mapping[str, str] = {
    "enableNamespaceOrder": "Volcano removed the order of namespaces",
    "enableTargetJob": "no action asks for a target job",
    "enableReservedNodes": "no action asks for reserved nodes",
    "enabledClusterOrder": "no action orders clusters",
}
# The plugins that read enableHierarchy.
HIERARCHICAL = ("capacity", "drf", "nodegroup")
# The plugins that read measured usage.
USAGE_READERS = ("rescheduling", "usage")

# An entry of ``configurations`` that is not an action: common parameters of MindCluster's plugins.
INIT_PARAMETERS = "init-params"
_OTHER_PLUGINS = "it is about plugins of MindCluster that Volcano does not have"


class InitParameters(Arguments):
    """Common parameters of MindCluster's plugins."""

    uses_cluster_info = boolean(
        "useClusterInfoManager",
        "whether NPUs are described by ClusterD or by agents of each node",
        default=True,
    )
    keeps_free_chips = boolean(
        "self-maintain-available-card",
        "whether free chips are computed from those of the node",
        default=True,
    )
    preset = ignored("presetVirtualDevice", "chips are divided when pods start", ArgumentType.BOOL)
    force_enqueue = ignored("forceEnqueue", _OTHER_PLUGINS)
    grace_over_time = ignored("grace-over-time", _OTHER_PLUGINS)
    nslb_version = ignored("nslb-version", _OTHER_PLUGINS)
    reserve_nodes = ignored("reserve-nodes", _OTHER_PLUGINS)
    shared_tor_num = ignored("shared-tor-num", _OTHER_PLUGINS)
    super_pod_size = ignored("super-pod-size", _OTHER_PLUGINS)


# Volcano has one setting for preempt, the gang actions and allocate; the gang actions read that of
# allocate.
REMEMBERS_ERRORS = boolean(
    "predicateErrorCacheEnable", "remembers where pods of a role did not fit", default=True
)


class IgnoredErrorCache(Arguments):
    """The error cache of predicates, for actions in which it has no effect."""

    error_cache = ignored(
        "predicateErrorCacheEnable", "Volcano forgets it after each task", ArgumentType.BOOL
    )


SOURCES_WITH_ADDRESS = ("prometheus", "elasticsearch")


class Metrics(Arguments):
    """The source of measured usage of nodes."""

    source = text(
        "type",
        "",
        "what measures the usage of nodes",
        Limit(choices=("prometheus", "prometheus_adaptor", "elasticsearch")),
    )
    address = text("address", "", "address of the source")
    interval = duration(
        "interval",
        "30s",
        "time between two measurements",
        Limit(above=0, otherwise="Volcano would poll every 30s instead"),
    )
    insecure = boolean(
        "tls.insecureSkipVerify", "does not check the certificate of the source", default=False
    )
    index = text("elasticsearch.index", "metricbeat-*", "the index that has the measurements")
    username = text("elasticsearch.username", "", "user name at the source")
    password = text("elasticsearch.password", "", "password at the source")
    host_field = text(
        "elasticsearch.hostnameFieldName", "host.hostname", "the field with the name of the node"
    )
