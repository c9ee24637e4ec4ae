"""Names that have, or had, a meaning in Volcano, so that they are not reported as typing errors."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.core.configuration.schema import ArgumentSchema, ArgumentType, Limit

ACTIONS = (
    "enqueue",
    "allocate",
    "backfill",
    "preempt",
    "reclaim",
    "shuffle",
    "gangpreempt",
    "gangreclaim",
)
PLUGINS = (
    "binpack",
    "capacity",
    "cdp",
    "conformance",
    "deviceshare",
    "drf",
    "extender",
    "gang",
    "network-topology-aware",
    "nodegroup",
    "nodeorder",
    "numa-aware",
    "overcommit",
    "pdb",
    "predicates",
    "priority",
    "proportion",
    "rescheduling",
    "resource-strategy-fit",
    "resourcequota",
    "sla",
    "task-topology",
    "tdm",
    "usage",
)

_SAMPLING = "every node is looked at"
# Keys beside ``actions`` and ``tiers`` that people write for Volcano's flags.
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
# The only plugins that look at enableHierarchy.
HIERARCHICAL = ("capacity", "drf", "nodegroup")
# The only plugins that look at measured usage.
USAGE_READERS = ("rescheduling", "usage")

METRIC_SOURCES = ("prometheus", "prometheus_adaptor", "elasticsearch")
SOURCES_WITH_ADDRESS = ("prometheus", "elasticsearch")
METRICS = ArgumentSchema(
    {
        "type": ArgumentType.STRING,
        "address": ArgumentType.STRING,
        "interval": ArgumentType.DURATION,
        "tls.insecureSkipVerify": ArgumentType.BOOL,
        "elasticsearch.index": ArgumentType.STRING,
        "elasticsearch.username": ArgumentType.STRING,
        "elasticsearch.password": ArgumentType.STRING,
        "elasticsearch.hostnameFieldName": ArgumentType.STRING,
    },
    limits={
        "type": Limit(choices=METRIC_SOURCES),
        "interval": Limit(above=0, otherwise="Volcano would poll every 30s instead"),
    },
)
