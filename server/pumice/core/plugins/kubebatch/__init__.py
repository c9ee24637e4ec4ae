"""The plugins that kube-batch had in ways of its own; conformance is the same in both."""

from pumice.core.plugins.kubebatch.drf import KubeBatchDrfPlugin
from pumice.core.plugins.kubebatch.gang import KubeBatchGangPlugin
from pumice.core.plugins.kubebatch.nodeorder import KubeBatchNodeOrderPlugin
from pumice.core.plugins.kubebatch.predicates import KubeBatchPredicatesPlugin
from pumice.core.plugins.kubebatch.priority import KubeBatchPriorityPlugin
from pumice.core.plugins.kubebatch.proportion import KubeBatchProportionPlugin

__all__ = [
    "KubeBatchDrfPlugin",
    "KubeBatchGangPlugin",
    "KubeBatchNodeOrderPlugin",
    "KubeBatchPredicatesPlugin",
    "KubeBatchPriorityPlugin",
    "KubeBatchProportionPlugin",
]
