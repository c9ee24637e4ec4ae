"""The compatibility switches, as a cluster's settings name them."""

# kube-batch's behaviour instead of Volcano's. The others work only beside this one.
KUBE_BATCH = "kube-batch"
# Namespaces are the queues (up to v0.4).
NAMESPACE_AS_QUEUE = "namespace-as-queue"
# Jobs with too few pods are left out of sessions for a while (up to v0.3).
BACKOFF = "backoff"
