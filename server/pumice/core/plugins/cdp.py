"""cdp: does not evict pods that were scheduled a short time ago."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import VictimRule
from pumice.core.session.session import Session
from pumice.patterns.golang import parse_duration_ns

COOLDOWN_TIME = "volcano.sh/cooldown-time"
_SCHEDULED, _TRUE = "PodScheduled", "True"


class CdpPlugin:
    """Removes pods from the candidates for eviction while their cooldown time lasts."""

    name: ClassVar[str] = "cdp"

    def __init__(self, options: PluginOptions) -> None:
        # The first end of a cooldown time that protected a candidate in this session.
        self._first_end_ns: int | None = None

    def open(self, session: Session) -> None:
        self._now_ns = session.now_ns
        # As in Volcano, the gang actions do not call this plugin.
        rule = VictimRule(self._unprotected)
        session.hooks.preemptable[self.name] = rule
        session.hooks.reclaimable[self.name] = rule

    def next_wake(self, now_ns: int) -> int | None:
        """When the first candidate that was protected in this session may be evicted."""
        return self._first_end_ns

    def _unprotected(self, _: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        return [task for task in candidates if not self._is_protected(task.pod)], PERMIT

    def _is_protected(self, pod: Pod) -> bool:
        end_ns = protected_until_ns(pod)
        if end_ns is None or end_ns <= self._now_ns:
            return False
        if self._first_end_ns is None or end_ns < self._first_end_ns:
            self._first_end_ns = end_ns
        return True


def protected_until_ns(pod: Pod) -> int | None:
    """The end of the pod's cooldown time; None: the pod has no cooldown time, or is not running."""
    text = pod.labels.get(COOLDOWN_TIME, pod.annotations.get(COOLDOWN_TIME))
    if text is None or pod.phase is not PodPhase.RUNNING:
        return None
    cooldown_ns = parse_duration_ns(text)
    if cooldown_ns is None:
        return None
    for condition in pod.conditions:
        if condition.type == _SCHEDULED and condition.status == _TRUE:
            # The cooldown time starts when the pod is scheduled, not when it is ready.
            return condition.transition_time_ns + cooldown_ns
    return None
