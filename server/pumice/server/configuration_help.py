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
    "cdp": "keeps pods from being evicted for a time after they were scheduled",
    "conformance": "keeps critical pods from being evicted",
    "drf": "orders jobs by their dominant share",
    "gang": "holds a job back until enough of its pods fit at once",
    "nodegroup": "keeps the jobs of a queue on the queue's node groups",
    "nodeorder": "scores nodes as Kubernetes does",
    "overcommit": "lets in more than there is room for, by a factor",
    "pdb": "keeps evictions within PodDisruptionBudgets",
    "predicates": "filters nodes as Kubernetes does",
    "priority": "orders jobs and pods by priority",
    "proportion": "divides the cluster among queues by weight",
    "resource-strategy-fit": "scores nodes by how full each resource is, with a strategy per resource",
    "resourcequota": "holds jobs back that their namespace's quota does not admit",
    "sla": "lets jobs in that waited for long enough",
    "task-topology": "places the roles of a job near to each other, or apart",
    "tdm": "lends revocable nodes to preemptable pods during daily windows",
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
    "enablePreferredOrder": "of the groups that a queue prefers, the first counts most",
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
    "proportional": "what pods without devices leave free for idle devices",
    "proportional.enable": "leaves cpu and memory free for idle devices",
    "proportional.resourceProportion": "cores and 10^9 bytes of memory per device",
    "proportional.resources": "the devices, with commas between them",
    "resourceStrategyFitWeight": "how much the score counts beside those of others; 0: no score",
    "resources": "strategy and weight by resource; a name may end in *",
    "resources.type": "whether full or empty nodes are better",
    "resources.weight": "how much the resource counts",
    "sra": "keeps pods that need no scarce resource away from nodes that have it",
    "sra.enable": "scores nodes by how few scarce resources they have",
    "sra.resourceWeight": "how much each scarce resource counts",
    "sra.resources": "the scarce resources, with commas between them",
    "sra.weight": "how much this score counts beside those of others",
    "sla-waiting-time": "a job that waited for so long is let in",
    "strict": "jobs of a queue without affinity run nowhere, instead of on nodes without a group",
    "tainttoleration.weight": "how much preferences of taints count",
    "task-topology.weight": "how much the score counts beside those of others",
    "tdm.evict.period": "time between evictions from nodes whose window is over",
    "tdm.revocable-zone.": "daily window in which nodes of this zone take revocable pods",
    "tdm.utc-offset": "what the windows' local time is ahead of UTC",
}


def argument_meaning(key: str) -> str:
    """Empty for an argument of a plugin that others ship."""
    if key in ARGUMENTS:
        return ARGUMENTS[key]
    prefixes = [prefix for prefix in ARGUMENTS if prefix.endswith(".") and key.startswith(prefix)]
    return ARGUMENTS[max(prefixes, key=len)] if prefixes else ""
