"""A recording's outside world with another scheduler in it: what would have happened.

Nodes, queues, quotas, creations and people's deletions come from the recording at their times.
Binds, starts, evictions and completions follow from what the core decides now. Where the core
decided as recorded for a while, the world of that time is taken over as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pumice.recordings.history import History, OutsideEvent
from pumice.recordings.lives import BY_CLEANUP, BY_USER, PodLife
from pumice.recordings.midway import InFlight
from pumice.recordings.pace import Pace
from pumice.v1 import decision_pb2, delta_pb2, object_pb2
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.group_pb2 import PodGroupStatus
from pumice.v1.status_pb2 import StatusChange

_GROUP = object_pb2.KIND_POD_GROUP


class Decided(Protocol):
    """What a session decided and said."""

    @property
    def decisions(self) -> Sequence[decision_pb2.Decision]: ...

    @property
    def statuses(self) -> Sequence[StatusChange]: ...


class Core(Protocol):
    """A core in this process."""

    def apply(self, ops: Sequence[delta_pb2.Op], now_ns: int) -> object: ...

    def session(self, now_ns: int) -> Decided: ...

    def next_wake(self, now_ns: int) -> int | None: ...

    @property
    def stirred(self) -> int:
        """Grows with every change after which something could be placed that could not before."""
        ...

    @property
    def configuration(self) -> Configuration:
        """The one that counts now."""
        ...


class ClosedLoop(InFlight):
    """Runs once, from the recording's beginning, or from a session in it, to its end."""

    def __init__(
        self,
        history: History,
        core: Core,
        pace: Pace,
        *,
        past: History | None = None,
        changed: Callable[[Configuration], Configuration] | None = None,
    ) -> None:
        """``past``: what happened before the session that leaves the recording.

        ``changed``: what becomes of configurations that come later.
        """
        super().__init__(history)
        self._core, self._pace = core, pace
        self._changed = changed
        self._past = past or History()
        self.evictions = list(self._past.evictions)
        self.sessions = len(self._past.ticks)
        self._statuses: dict[str, PodGroupStatus] = dict(self._past.statuses)
        self._node_names: dict[str, str] = {}
        self._cleaned_up = _cleaned_up(history)
        # PodGroups that go as soon as their jobs are over.
        self._ends: dict[str, OutsideEvent] = {}
        # The last session decided nothing, and nothing came since.
        self._quiet = False

    def run(
        self, progress: Callable[[int], None] | None = None, leaving: Decided | None = None
    ) -> None:
        """``leaving``: what the session decided that leaves the recording; it has run already."""
        self._plan()
        end_ns, pace = self._history.end_ns, self._pace
        if leaving is not None:
            now_ns, _ = pace.due()
            pace.ran(now_ns)
            self._note(leaving, now_ns)
        while True:
            due_ns, recorded = pace.due()
            event_ns = self._heap[0][0] if self._heap else end_ns + 1
            if min(event_ns, due_ns) > end_ns:
                return
            if event_ns <= due_ns:
                self._happen(event_ns)
                self._apply(event_ns)
                continue
            pace.ran(due_ns)
            if recorded or self._is_needed(due_ns):
                self._note(self._core.session(due_ns), due_ns)
                if progress is not None:
                    progress(due_ns)

    def _apply(self, now_ns: int) -> None:
        if not self._ops:
            return
        before = self._core.stirred
        self._core.apply(self._ops, now_ns)
        self._ops = []
        self._quiet = False
        if self._core.stirred != before:
            self._pace.stirred(now_ns)

    def _is_needed(self, now_ns: int) -> bool:
        """A core leaves out a session that could not decide anything new."""
        if not self._quiet:
            return True
        wake_ns = self._core.next_wake(now_ns)
        return wake_ns is not None and wake_ns <= now_ns

    def _note(self, decided: Decided, now_ns: int) -> None:
        self._now_ns = now_ns
        self.sessions += 1
        self._quiet = not (decided.decisions or decided.statuses)
        self._obey(decided, now_ns)

    def _obey(self, decided: Decided, now_ns: int) -> None:
        for decision in decided.decisions:
            if decision.HasField("bind"):
                life = self.lives[decision.bind.uid]
                life.decided_ns = life.decided_ns or now_ns
                delay = self.guesses.bind_ns(self._then(life))
                self._at(now_ns + delay, self._bind, decision)
            elif decision.HasField("evict"):
                life = self.lives[decision.evict.uid]
                life.evicted_ns = now_ns
                self.evictions.append((now_ns, life.uid))
                delay = self.guesses.notice_ns(self._then(life))
                self._at(now_ns + delay, self._terminate, life.uid)
        for change in decided.statuses:
            if change.HasField("pod_group"):
                self._statuses[change.pod_group.uid] = change.pod_group.status
            elif change.HasField("pod"):
                delay = self.guesses.echo_ns(change.pod.uid, now_ns)
                self._at(now_ns + delay, self._echo, change.pod)

    # The plan.

    def _plan(self) -> None:
        history, past = self._history, self._past
        for held in past.held.values():
            if held.HasField("node"):
                self._note_node(held)
        self._take_over(past)
        for event in history.outside[len(past.outside) :]:
            self._at(event.at_ns, self._outside, event)
        for at_ns, configuration in history.configured[max(len(past.configured), 1) :]:
            self._at(at_ns, self._configure, configuration)
        for life in history.pods.values():
            if life.uid not in past.pods and not life.replaces:
                self._at(life.created_ns, self._create, life)
            if life.ended_by == BY_USER:
                self._plan_deletion(life)

    def _plan_deletion(self, life: PodLife) -> None:
        seen = self._past.pods.get(life.uid)
        if seen is None or not (seen.terminating_ns or seen.gone_ns):
            at_ns = life.terminating_ns or life.gone_ns
            self._at(at_ns, lambda: self._terminate(life.uid, by_people=True))

    def _configure(self, configuration: Configuration) -> None:
        if self._changed is not None:
            configuration = self._changed(configuration)
        # At once: it counts for what comes with it.
        self._ops.append(delta_pb2.Op(configuration=configuration))
        self._apply(self._now_ns)
        self._pace.configured(self._core.configuration)

    # Outside.

    def _outside(self, event: OutsideEvent) -> None:
        held = event.object
        if held is None:
            self._outside_end(event)
            return
        if held.HasField("pod_group"):
            group = held.pod_group
            job = self._job(f"{group.namespace}/{group.name}")
            job.queue, job.min_member = group.queue, group.min_member
            if group.uid in self._statuses:
                copied = object_pb2.ClusterObject()
                copied.CopyFrom(held)
                copied.pod_group.status.CopyFrom(self._statuses[group.uid])
                held = copied
        elif held.HasField("node"):
            self._note_node(held)
        self._upsert(held)

    def _note_node(self, held: object_pb2.ClusterObject) -> None:
        self._node_names[held.node.uid] = held.node.name
        self._node_uids[held.node.name] = held.node.uid

    def _outside_end(self, event: OutsideEvent) -> None:
        if event.kind == _GROUP and self._outlives(event.uid):
            # Cleaned up when it was done; it is not done yet.
            self._ends[self._cleaned_up[event.uid]] = event
            return
        name = self._node_names.pop(event.uid, "") if event.kind == object_pb2.KIND_NODE else ""
        self._delete(event.kind, event.uid)
        if name and self._node_uids.get(name) == event.uid:
            del self._node_uids[name]
            for pod in [pod for pod in self._pods.values() if pod.node_name == name]:
                self._lose(pod.uid)

    def _is_over(self, job: str) -> None:
        event = self._ends.pop(job, None)
        if event is not None:
            self._outside_end(event)

    def _outlives(self, group_uid: str) -> bool:
        job = self._cleaned_up.get(group_uid, "")
        lives = (life for life in self._lives_of.get(job, ()) if not life.gone_ns)
        return any(not life.finished_ns for life in lives)


def _cleaned_up(history: History) -> dict[str, str]:
    """The jobs, by their group's uid, whose groups went only after all their pods had finished."""
    names: dict[str, str] = {}
    found: dict[str, str] = {}
    members: dict[str, list[PodLife]] = {}
    for life in history.pods.values():
        members.setdefault(life.job, []).append(life)
    for event in history.outside:
        if event.object is not None and event.object.HasField("pod_group"):
            group = event.object.pod_group
            names[event.uid] = f"{group.namespace}/{group.name}"
        elif event.object is None and event.uid in names:
            job = names[event.uid]
            own = [life for life in members.get(job, ()) if not life.replaced_by]
            if own and all(_is_over(life, event.at_ns) for life in own):
                found[event.uid] = job
    return found


def _is_over(life: PodLife, now_ns: int) -> bool:
    if life.ended_by == BY_CLEANUP:
        return life.gone_ns <= now_ns
    return 0 < life.finished_ns <= now_ns
