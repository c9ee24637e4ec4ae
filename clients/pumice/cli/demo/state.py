"""The state of the demo's cluster, polled from the core."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from dataclasses import dataclass, field, replace

from pumice.client import Client, Job, Node, PodGroupPhase, Queue, Session
from pumice.client.errors import OUTAGES

_MOST_DECISIONS = 60
_WAITING = (PodGroupPhase.PENDING, PodGroupPhase.INQUEUE)


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """One decision of a session as a line: a bound gang, or an evicted pod."""

    session: int
    is_eviction: bool
    subject: str
    text: str

    def __str__(self) -> str:
        verb = "evict" if self.is_eviction else "bind"
        return f"{verb:<5} {self.subject} {self.text}"


@dataclass(slots=True)
class DemoState:
    """All values that the view shows."""

    core_is_unavailable: bool = True
    session: int = 0
    queues: list[Queue] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    decisions: deque[DecisionLine] = field(default_factory=lambda: deque(maxlen=_MOST_DECISIONS))
    notes: list[str] = field(default_factory=list)
    # Counts of the simulated cluster.
    bound: int = 0
    evicted: int = 0
    session_seconds: list[float] = field(default_factory=list)

    def waiting(self) -> list[tuple[Job, str]]:
        """Jobs with pending pods, and the reason why each waits."""
        return [
            (job, _why(job)) for job in self.jobs if job.phase in _WAITING and job.pending_count
        ]

    def cluster_cpu(self) -> int:
        return sum(node.allocatable.get("cpu", 0) for node in self.nodes)

    def slowest_milliseconds(self) -> float:
        return 1000 * max(self.session_seconds, default=0.0)

    def median_milliseconds(self) -> float:
        return 1000 * statistics.median(self.session_seconds) if self.session_seconds else 0.0


class Poller:
    """Copies the state of the core to a DemoState; an unavailable core is not an error."""

    def __init__(self, client: Client, state: DemoState) -> None:
        self._client = client
        self._state = state
        self._last_session = 0

    def process_restarted(self) -> None:
        """A restarted core numbers its sessions from 1."""
        self._last_session = 0
        self._state.core_is_unavailable = True

    def poll(self) -> None:
        state = self._state
        try:
            state.queues = [queue for queue in self._client.list_queues() if queue.name != "root"]
            state.nodes = self._client.list_nodes()
            state.jobs = self._client.list_jobs()
            self._read_sessions()
            state.core_is_unavailable = False
        except OUTAGES:
            state.core_is_unavailable = True

    def _read_sessions(self) -> None:
        sessions = self._client.list_sessions()
        self._state.session = sessions[0].number if sessions else 0
        if self._state.session < self._last_session:
            self._last_session = 0
        new = [session for session in sessions if session.number > self._last_session]
        for summary in reversed(new):
            self._last_session = summary.number
            self._state.session_seconds.append(summary.duration_seconds)
            if summary.bind_count or summary.evict_count:
                self._state.decisions.extend(decision_lines(self._session(summary.number)))

    def _session(self, number: int) -> Session | None:
        try:
            return self._client.get_session(number)
        except OUTAGES:
            return None


def _why(job: Job) -> str:
    """The first reason, without the name of a pod."""
    return replace(job.reasons[0], task="").text if job.reasons else "not examined yet"


def decision_lines(session: Session | None) -> list[DecisionLine]:
    """The decisions of a session, one line per gang."""
    if session is None:
        return []
    number = session.summary.number
    evictions = [
        DecisionLine(number, True, _name(e.pod), f"for {_name(e.for_job) or e.reason}")
        for e in session.evictions
    ]
    binds: dict[str, Counter[str]] = {}
    for bind in session.binds:
        binds.setdefault(_name(bind.job or bind.pod), Counter())[bind.node] += 1
    gangs = [DecisionLine(number, False, name, _places(nodes)) for name, nodes in binds.items()]
    return [*evictions, *gangs]


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _places(nodes: Counter[str]) -> str:
    return "to " + ", ".join(
        f"{node} ({count} pods)" if count > 1 else node for node, count in sorted(nodes.items())
    )
