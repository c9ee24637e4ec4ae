"""kube-batch's behaviour instead of Volcano's. The registry imports this package, and nothing else of the core does.

A mode is a list of actions, a list of plugins, a cache, a session and a reader of configurations.
Each of them is Volcano's with the differences that this package states.
"""

from pumice.core.kubebatch.actions.evicting import KubeBatchPreemptAction, KubeBatchReclaimAction
from pumice.core.kubebatch.actions.placing import KubeBatchAllocateAction, KubeBatchBackfillAction
from pumice.core.kubebatch.cache import NAMESPACE_AS_QUEUE, KubeBatchCache
from pumice.core.kubebatch.closing import close
from pumice.core.kubebatch.configuration import DEFAULT_CONFIGURATION, read_configuration
from pumice.core.kubebatch.plugins.gang import BACKOFF, KubeBatchGangPlugin
from pumice.core.kubebatch.plugins.nodeorder import KubeBatchNodeOrderPlugin
from pumice.core.kubebatch.plugins.predicates import KubeBatchPredicatesPlugin
from pumice.core.kubebatch.plugins.priority import KubeBatchPriorityPlugin
from pumice.core.kubebatch.plugins.proportion import KubeBatchDrfPlugin, KubeBatchProportionPlugin
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.plugins.conformance import ConformancePlugin

# The compatibility switch that selects this mode. The others work only beside it.
KUBE_BATCH = "kube-batch"
ACTIONS = (
    KubeBatchAllocateAction,
    KubeBatchBackfillAction,
    KubeBatchPreemptAction,
    KubeBatchReclaimAction,
)
PLUGINS = (
    ConformancePlugin,
    KubeBatchDrfPlugin,
    KubeBatchGangPlugin,
    KubeBatchNodeOrderPlugin,
    KubeBatchPredicatesPlugin,
    KubeBatchPriorityPlugin,
    KubeBatchProportionPlugin,
)

__all__ = [
    "ACTIONS",
    "BACKOFF",
    "DEFAULT_CONFIGURATION",
    "KUBE_BATCH",
    "NAMESPACE_AS_QUEUE",
    "PLUGINS",
    "KubeBatchCache",
    "KubeBatchSession",
    "close",
    "read_configuration",
]
