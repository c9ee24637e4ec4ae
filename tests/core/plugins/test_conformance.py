"""conformance: pods that the cluster itself needs are never evicted."""

from __future__ import annotations

from dataclasses import replace

from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names

CANDIDATES = ["plain", "cluster", "node", "system"]


def opened() -> Opened:
    return Opened(
        node("n1"),
        queue(),
        pod_group("g"),
        pod("wants", "g"),
        pod("plain", "g", on="n1", spec={"priority_class_name": "high"}),
        pod("cluster", "g", on="n1", spec={"priority_class_name": "system-cluster-critical"}),
        pod("node", "g", on="n1", spec={"priority_class_name": "system-node-critical"}),
        replace(pod("system", "g", on="n1"), namespace="kube-system"),
        plugins=["conformance"],
    )


def test_system_pods_are_taken_off_every_list_of_victims() -> None:
    session = opened()
    hooks, tasks = session.hooks, session.tasks(*CANDIDATES)
    for function in (hooks.preemptable["conformance"], hooks.reclaimable["conformance"]):
        victims, vote = function(session.task("wants"), tasks)
        assert (names(victims), vote) == (["plain"], 1)
    for action in ("gangpreempt", "gangreclaim"):
        victims, vote = hooks.unified_evictable["conformance"](action, session.job("g"), tasks)
        assert (names(victims), vote) == (["plain"], 1)
