"""What the core says about the cluster while the demo runs."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

from pumice.client.inspection import CoreAwayError, InspectionClient
from pumice.client.reasons import summarized, told
from pumice.v1 import group_pb2
from pumice.v1.decision_pb2 import Decision
from pumice.v1.inspection_service_pb2 import JobInfo, NodeInfo, QueueInfo
from pumice.v1.session_pb2 import SessionDetail

_SHOWN_DECISIONS = 8
_WAITING = (group_pb2.POD_GROUP_PHASE_PENDING, group_pb2.POD_GROUP_PHASE_INQUEUE)


@dataclass(slots=True)
class Picture:
    """All that the view shows; filled anew at every look, but for what adds up."""

    core_is_away: bool = True
    session: int = 0
    queues: list[QueueInfo] = field(default_factory=list)
    nodes: list[NodeInfo] = field(default_factory=list)
    jobs: list[JobInfo] = field(default_factory=list)
    decisions: deque[str] = field(default_factory=lambda: deque(maxlen=_SHOWN_DECISIONS))
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    bound: int = 0
    evicted: int = 0
    session_count: int = 0
    session_seconds: list[float] = field(default_factory=list)

    def waiting(self) -> list[tuple[str, str]]:
        """Jobs that wait and what for, by name."""
        found = []
        for job in self.jobs:
            if job.phase in _WAITING and job.pending_count:
                reasons = summarized(job.reasons)
                why = told(reasons[0]) if reasons else "not looked at yet"
                found.append((f"{job.namespace}/{job.name}", why))
        return found

    def slowest_milliseconds(self) -> float:
        return 1000 * max(self.session_seconds, default=0.0)

    def median_milliseconds(self) -> float:
        return 1000 * statistics.median(self.session_seconds) if self.session_seconds else 0.0


class Feed:
    """Looks at the core now and then; a core that is away is no error."""

    def __init__(self, client: InspectionClient, picture: Picture) -> None:
        self._client = client
        self._picture = picture
        self._core = ""
        self._seen = 0

    def look(self) -> None:
        picture = self._picture
        try:
            queues = self._client.queues()
            picture.queues = list(queues.queues)
            picture.nodes = list(self._client.nodes().nodes)
            picture.jobs = list(self._client.jobs().jobs)
            # A core that was started again counts its sessions from the beginning.
            if queues.session < picture.session:
                self._seen = 0
            picture.session = queues.session
            self._take_sessions()
            picture.core_is_away = False
        except CoreAwayError:
            picture.core_is_away = True

    def _take_sessions(self) -> None:
        last = self._seen
        for summary in self._client.sessions().sessions:
            if summary.session <= self._seen:
                break
            last = max(last, summary.session)
            seconds = summary.duration.seconds + summary.duration.nanos / 1e9
            self._picture.session_seconds.append(seconds)
            self._picture.session_count += 1
            self._picture.bound += summary.bind_count
            self._picture.evicted += summary.evict_count
            if summary.bind_count or summary.evict_count:
                detail = self._client.session(summary.session)
                if detail is not None:
                    self._take_decisions(detail)
        self._seen = last

    def _take_decisions(self, detail: SessionDetail) -> None:
        for decision in detail.decisions[-_SHOWN_DECISIONS:]:
            self._picture.decisions.append(_in_words(decision))


def _in_words(decision: Decision) -> str:
    if decision.HasField("bind"):
        return f"bind {decision.bind.name} to {decision.bind.node}"
    return f"evict {decision.evict.name} for {decision.evict.for_job or decision.evict.reason}"
