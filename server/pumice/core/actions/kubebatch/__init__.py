"""The four actions as kube-batch had them."""

from pumice.core.actions.kubebatch.allocate import KubeBatchAllocateAction
from pumice.core.actions.kubebatch.backfill import KubeBatchBackfillAction
from pumice.core.actions.kubebatch.preempt import KubeBatchPreemptAction
from pumice.core.actions.kubebatch.reclaim import KubeBatchReclaimAction

__all__ = [
    "KubeBatchAllocateAction",
    "KubeBatchBackfillAction",
    "KubeBatchPreemptAction",
    "KubeBatchReclaimAction",
]
