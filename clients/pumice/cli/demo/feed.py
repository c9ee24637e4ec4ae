"""What the core says about the cluster while the demo runs."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from dataclasses import dataclass, field

from pumice.client.inspection import CoreAwayError, InspectionClient
from pumice.client.reasons import reason_text
from pumice.v1 import group_pb2
from pumice.v1.inspection_service_pb2 import JobInfo, NodeInfo, QueueInfo
from pumice.v1.reason_pb2 import Reason
from pumice.v1.session_pb2 import SessionDetail

_KEPT_DECISIONS = 60
_WAITING = (group_pb2.POD_GROUP_PHASE_PENDING, group_pb2.POD_GROUP_PHASE_INQUEUE)


@dataclass(frozen=True, slots=True)
class Decided:
    """One line of what a session decided: a gang that was bound, or a pod that has to go."""

    session: int
    is_eviction: bool
    who: str
    what: str

    def __str__(self) -> str:
        verb = "evict" if self.is_eviction else "bind"
        return f"{verb:<5} {self.who} {self.what}"


@dataclass(slots=True)
class Picture:
    """All that the view shows; filled anew at every look, but for what adds up."""

    core_is_away: bool = True
    session: int = 0
    queues: list[QueueInfo] = field(default_factory=list)
    nodes: list[NodeInfo] = field(default_factory=list)
    jobs: list[JobInfo] = field(default_factory=list)
    decisions: deque[Decided] = field(default_factory=lambda: deque(maxlen=_KEPT_DECISIONS))
    notes: list[str] = field(default_factory=list)
    bound: int = 0
    evicted: int = 0
    session_count: int = 0
    session_seconds: list[float] = field(default_factory=list)

    def waiting(self) -> list[tuple[JobInfo, str]]:
        """Jobs that wait and what for, by name."""
        found = []
        for job in self.jobs:
            if job.phase in _WAITING and job.pending_count:
                found.append((job, _why(job)))
        return found

    def cluster_cpu(self) -> int:
        return sum(node.allocatable.get("cpu", 0) for node in self.nodes)

    def slowest_milliseconds(self) -> float:
        return 1000 * max(self.session_seconds, default=0.0)

    def median_milliseconds(self) -> float:
        return 1000 * statistics.median(self.session_seconds) if self.session_seconds else 0.0


class Feed:
    """Looks at the core now and then; a core that is away is no error."""

    def __init__(self, client: InspectionClient, picture: Picture) -> None:
        self._client = client
        self._picture = picture
        self._seen = 0

    def core_may_be_new(self) -> None:
        """A core that was started again counts its sessions from the beginning."""
        self._seen = 0
        self._picture.core_is_away = True

    def look(self) -> None:
        picture = self._picture
        try:
            queues = self._client.queues()
            picture.queues = [info for info in queues.queues if info.share.name != "root"]
            picture.nodes = list(self._client.nodes().nodes)
            picture.jobs = list(self._client.jobs().jobs)
            if queues.session < self._seen:
                self._seen = 0
            picture.session = queues.session
            self._take_sessions()
            picture.core_is_away = False
        except CoreAwayError:
            picture.core_is_away = True

    def _take_sessions(self) -> None:
        new = [s for s in self._client.sessions().sessions if s.session > self._seen]
        for summary in sorted(new, key=lambda each: each.session):
            self._seen = summary.session
            seconds = summary.duration.seconds + summary.duration.nanos / 1e9
            self._picture.session_seconds.append(seconds)
            self._picture.session_count += 1
            self._picture.bound += summary.bind_count
            self._picture.evicted += summary.evict_count
            if summary.bind_count or summary.evict_count:
                detail = self._client.session(summary.session)
                if detail is not None:
                    self._picture.decisions.extend(in_words(detail))


def _why(job: JobInfo) -> str:
    """The first reason for its pods, without their names: those who look know whose they are."""
    if not job.reasons:
        return "not looked at yet"
    reason = Reason()
    reason.CopyFrom(job.reasons[0])
    reason.task = ""
    return reason_text(reason)


def in_words(detail: SessionDetail) -> list[Decided]:
    """A session's decisions, those of a gang in one line."""
    session = detail.summary.session
    jobs = {gang.id: gang.job.rpartition("/")[2] for gang in detail.gangs}
    evictions: list[Decided] = []
    binds: dict[str, Counter[str]] = {}
    for decision in detail.decisions:
        if decision.HasField("bind"):
            who = jobs.get(decision.gang_id, decision.bind.name)
            binds.setdefault(who, Counter())[decision.bind.node] += 1
        elif decision.HasField("evict"):
            whom = decision.evict.for_job.rpartition("/")[2] or decision.evict.reason
            evictions.append(Decided(session, True, decision.evict.name, f"for {whom}"))
    placed = [Decided(session, False, who, _places(nodes)) for who, nodes in binds.items()]
    return [*evictions, *placed]


def _places(nodes: Counter[str]) -> str:
    return "to " + ", ".join(
        f"{node} ({count} pods)" if count > 1 else node for node, count in sorted(nodes.items())
    )
