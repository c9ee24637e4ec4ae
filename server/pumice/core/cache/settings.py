"""What the cluster's configuration says about the cache itself."""

from __future__ import annotations

from dataclasses import dataclass

# The compatibility switches: kube-batch's behaviour instead of Volcano's, and with it namespaces
# as queues (up to v0.4) and jobs that are left out of sessions for a while (up to v0.3).
KUBE_BATCH = "kube-batch"
NAMESPACE_AS_QUEUE = "namespace-as-queue"
BACKOFF = "backoff"


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Which pods are scheduled, and which queue a job without a queue gets."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    default_queue: str = "default"
    # CSI drivers whose volumes are not counted against a node's limits.
    ignored_provisioners: tuple[str, ...] = ("rancher.io/local-path", "hostpath.csi.k8s.io")
    # Volcano's feature gates that are switched on, by their names.
    feature_gates: tuple[str, ...] = ()
    # Switches of the compatibility page that are on.
    compat: tuple[str, ...] = ()
