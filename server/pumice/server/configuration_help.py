"""Short descriptions of actions, plugins, flags and arguments of a configuration."""

from __future__ import annotations

from collections.abc import Mapping

ACTIONS: Mapping[str, str] = {
    "enqueue": "lets pending jobs in as far as the cluster has room for them",
    "allocate": "places the pods of jobs that were let in, gang by gang",
    "backfill": "places pods that ask for nothing",
    "preempt": "evicts pods of lower priority in the same queue",
    "reclaim": "takes back what other queues hold above their share",
    "gangpreempt": "evicts whole gangs of lower priority in the same queue",
    "gangreclaim": "takes whole gangs back from queues above their share",
    "shuffle": "evicts running pods that plugins want moved",
}
PLUGINS: Mapping[str, str] = {
    "binpack": "prefers nodes that are already full",
    "capacity": "gives queues what they deserve, as written in them",
    "conformance": "keeps critical pods from being evicted",
    "drf": "orders jobs by their dominant share",
    "gang": "holds a job back until enough of its pods fit at once",
    "nodeorder": "scores nodes as Kubernetes does",
    "overcommit": "lets in more than there is room for, by a factor",
    "predicates": "filters nodes as Kubernetes does",
    "priority": "orders jobs and pods by priority",
    "proportion": "divides the cluster among queues by weight",
    "resourcequota": "holds jobs back that their namespace's quota does not admit",
    "sla": "lets jobs in that waited for long enough",
}
# What a plugin has a say in while the flag is on.
FLAGS: Mapping[str, str] = {
    "enableJobOrder": "the order of jobs",
    "enableJobReady": "whether enough of a job fits to start it",
    "enableJobPipelined": "whether a job may wait for room that is being freed",
    "enableTaskOrder": "the order of a job's pods",
    "enablePreemptable": "whom preempt may evict",
    "enableReclaimable": "whom reclaim may evict",
    "enablePreemptive": "whether a queue may take back for a pod",
    "enableQueueOrder": "the order of queues",
    "enablePredicate": "which nodes a pod may use",
    "enableBestNode": "the choice among the best nodes",
    "enableNodeOrder": "which nodes are better",
    "enableTargetJob": "the job that nodes are reserved for",
    "enableReservedNodes": "which nodes are reserved",
    "enableJobEnqueued": "whether a pending job is let in",
    "enabledVictim": "whom shuffle moves",
    "enableJobStarving": "whether a job may evict for itself",
    "enabledOverused": "whether a queue has its share",
    "enabledAllocatable": "whether a queue may take one more pod",
    "enabledHyperNodeOrder": "which network domains are better",
    "enabledSubJobReady": "whether enough of a sub-group fits",
    "enabledSubJobPipelined": "whether a sub-group may wait for room that is being freed",
    "enabledSubJobOrder": "the order of sub-groups",
    "enabledHyperNodeGradient": "which network domains are tried one after the other",
    "enableHierarchy": "shares along the tree of queues",
    "enabledClusterOrder": "the order of clusters",
}
# By argument, or by what its name begins with.
ARGUMENTS: Mapping[str, str] = {
    "ancestorReclaimLevel": "how far up the tree of queues reclaim looks",
    "balancedresource.weight": "how much it counts that cpu and memory are used evenly",
    "binpack.cpu": "how much cpu counts in the score",
    "binpack.memory": "how much memory counts in the score",
    "binpack.resources": "further resources that count in the score",
    "binpack.resources.": "how much this resource counts in the score",
    "binpack.weight": "how much the whole score counts beside those of others",
    "enableTopologyAwarePreemption": "tries victims out node by node before it evicts",
    "imagelocality.weight": "how much it counts that images lie on the node",
    "leastrequested.weight": "how much it counts that a node is empty",
    "maxCandidateNodesAbsolute": "at most so many nodes are tried for victims",
    "minCandidateNodesAbsolute": "at least so many nodes are tried for victims",
    "minCandidateNodesPercentage": "at least this part of the nodes is tried for victims",
    "mostrequested.weight": "how much it counts that a node is full",
    "nodeaffinity.weight": "how much preferred node affinity counts",
    "overcommit-factor": "so many times the cluster may be let in",
    "podaffinity.weight": "how much preferred affinity to other pods counts",
    "podtopologyspread.weight": "how much an even spread counts",
    "predicate.CacheEnable": "remembers what was found for equal pods",
    "predicate.NodeAffinityEnable": "looks at node selectors and node affinity",
    "predicate.NodePortsEnable": "looks at host ports",
    "predicate.NodeVolumeLimitsEnable": "looks at how many volumes a node takes",
    "predicate.PodAffinityEnable": "looks at affinity between pods",
    "predicate.PodTopologySpreadEnable": "looks at spread constraints",
    "predicate.TaintTolerationEnable": "looks at taints",
    "predicate.VolumeBindingEnable": "looks at whether volumes can be bound",
    "predicate.VolumeZoneEnable": "looks at the zones of volumes",
    "predicateErrorCacheEnable": "remembers where pods of a role did not fit",
    "sla-waiting-time": "a job that waited for so long is let in",
    "tainttoleration.weight": "how much preferences of taints count",
}


def argument_meaning(key: str) -> str:
    """Empty for an argument of a plugin that others ship."""
    if key in ARGUMENTS:
        return ARGUMENTS[key]
    prefixes = [prefix for prefix in ARGUMENTS if prefix.endswith(".") and key.startswith(prefix)]
    return ARGUMENTS[max(prefixes, key=len)] if prefixes else ""
