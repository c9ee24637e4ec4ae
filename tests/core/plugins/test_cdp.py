"""cdp: a pod is protected for a time after it was scheduled."""

from __future__ import annotations

import pytest

from pumice.core.model.pod import PodCondition, PodPhase
from pumice.core.plugins.cdp import COOLDOWN_TIME, CdpPlugin, protected_until_ns
from pumice.core.session.hooks import PERMIT
from tests.core.builders import NOW_NS, job, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names

SECOND = 10**9
SCHEDULED = PodCondition("PodScheduled", "True", transition_time_ns=NOW_NS - 60 * SECOND)


@pytest.mark.parametrize(
    ("labels", "annotations", "seconds"),
    [
        ({}, {}, None),
        ({COOLDOWN_TIME: "2m"}, {}, 60),
        ({}, {COOLDOWN_TIME: "90s"}, 30),
        ({COOLDOWN_TIME: "1m"}, {COOLDOWN_TIME: "1h"}, 0),
        ({COOLDOWN_TIME: "soon"}, {COOLDOWN_TIME: "1h"}, None),
        ({COOLDOWN_TIME: "-5m"}, {}, -360),
    ],
)
def test_the_label_counts_before_the_annotation(
    labels: dict[str, str], annotations: dict[str, str], seconds: int | None
) -> None:
    held = pod("a-0", "a", on="n1", labels=labels, annotations=annotations, conditions=(SCHEDULED,))
    expected = None if seconds is None else NOW_NS + seconds * SECOND
    assert protected_until_ns(held) == expected


def test_only_running_pods_that_were_scheduled_are_protected() -> None:
    label = {COOLDOWN_TIME: "1h"}
    assert protected_until_ns(pod("a", "a", on="n1", labels=label)) is None
    other = PodCondition("PodScheduled", "False", transition_time_ns=NOW_NS)
    assert protected_until_ns(pod("a", "a", on="n1", labels=label, conditions=(other,))) is None
    pending = pod("a", "a", labels=label, conditions=(SCHEDULED,))
    assert pending.phase is PodPhase.PENDING
    assert protected_until_ns(pending) is None


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
def test_protected_pods_are_no_victims_and_the_first_end_wakes(point: str) -> None:
    pods = [
        pod(f"a-{i}", "a", on="n1", labels={COOLDOWN_TIME: time}, conditions=(SCHEDULED,))
        for i, time in enumerate(("1m", "90s", "2m"))
    ]
    objects = [queue(), node("n1"), pod_group("a"), *pods, *job("p", 1)]
    session = Opened(*objects, plugins=["cdp"])
    plugin = session.plugins["cdp"]
    assert isinstance(plugin, CdpPlugin)
    assert plugin.next_wake(NOW_NS) is None
    hook = getattr(session.hooks, point)["cdp"]
    found, vote = hook(session.task("p-0"), session.tasks("a-0", "a-1", "a-2"))
    assert (names(found), vote) == (["a-0"], PERMIT)
    assert plugin.next_wake(NOW_NS) == NOW_NS + 30 * SECOND
