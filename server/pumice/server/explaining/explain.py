"""Puts an explanation together: what the owner sees now, and what the book knows of before."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from pumice.core.decisions import Bind
from pumice.server import errors
from pumice.server.cluster_info import write_pause
from pumice.server.clusters import Cluster, Clusters
from pumice.server.explaining.book import Evicted, Period, Story
from pumice.server.explaining.clarity import clarified
from pumice.server.explaining.names import nearest_names
from pumice.server.explaining.sentences import sentence_of
from pumice.server.explaining.sight import Sight, Subject, glimpse, see
from pumice.server.explaining.stages import stages_of
from pumice.server.records import SessionRecord
from pumice.server.served import ServedCluster
from pumice.server.surroundings import Surroundings
from pumice.server.whatif.followers import Followers
from pumice.server.wire import write_reason
from pumice.server.wire.times import timestamp
from pumice.v1 import explanation_pb2 as pb
from pumice.v1.scheduling_service_pb2 import ExplainRequest, ExplainResponse

_DEFAULT_NODES, _MOST_NODES = 5, 100
# Closer looks that may wait for one owner at once: more would hold up its sessions.
_LOOKS_AT_ONCE = 2
_LOOK_SECONDS = 10.0
# Members of a gang that a follower, which nobody waits for, may imagine on their nodes.
_MOST_AHEAD = 20_000
# How long a look that a session keeps waiting is waited for, unless the caller says.
_PATIENCE_SECONDS = 0.02
_MOST_PATIENCE_SECONDS = 30


class Explainer:
    """Answers Explain: from the follower where there is one, which no session keeps waiting.

    Without one, the owner is asked; who is kept waiting for too long by a session is answered from
    the board and the book, which know all but the nodes.
    """

    def __init__(self, clusters: Clusters, around: Surroundings, followers: Followers) -> None:
        self._clusters = clusters
        self._around = around
        self._followers = followers
        self._looks: dict[str, asyncio.Semaphore] = {}

    async def explain(self, request: ExplainRequest) -> ExplainResponse:
        subject = _subject(request)
        cluster = self._clusters.find(request.cluster)
        patience = _patience(request)
        subject = await asyncio.to_thread(_with_hint, cluster, subject)
        sight = await self._see(cluster, subject, patience)
        by_now = await asyncio.to_thread(_with_hint, cluster, subject)
        if by_now != subject and not sight.without_nodes:
            # A session ended meanwhile and blames another pod: that one is to be looked at.
            sight = await self._see(cluster, by_now, patience)
        records = cluster.history.newest_first()
        return await asyncio.to_thread(_read, cluster, subject, sight, records)

    def forget(self, cluster: Cluster) -> None:
        self._looks.pop(cluster.name, None)

    async def _see(self, cluster: Cluster, subject: Subject, patience: float) -> Sight:
        now_ns = self._around.clock.now_ns()
        link = self._followers.ready(cluster)
        if link is not None:
            with suppress(errors.TrialLostError):
                thorough = replace(subject, most_ahead=_MOST_AHEAD)
                return await link.see(thorough, now_ns, _LOOK_SECONDS)
        looking = asyncio.create_task(self._look(cluster, subject, now_ns))
        try:
            await asyncio.wait({looking}, timeout=patience)
            sight = None if looking.done() else await _glimpse(cluster, subject)
            return await looking if sight is None else sight
        finally:
            looking.cancel()

    async def _look(self, cluster: Cluster, subject: Subject, now_ns: int) -> Sight:
        turns = self._looks.setdefault(cluster.name, asyncio.Semaphore(_LOOKS_AT_ONCE))
        async with turns:
            sight = await cluster.owner.ask(lambda served: _seen(served, subject, now_ns))
        if sight is None:
            raise errors.NotReadyError(cluster.name)
        return sight


async def _glimpse(cluster: Cluster, subject: Subject) -> Sight | None:
    """What can be said beside a running session; None: nothing, or it has just ended."""
    board = cluster.served.board
    view = board.at_once()
    if view is None:
        return None
    sight = await asyncio.to_thread(glimpse, view, subject)
    return sight if board.still_shows(view) else None


def _seen(served: ServedCluster, subject: Subject, now_ns: int) -> Sight | None:
    """None before the first snapshot is whole."""
    return see(served.state, subject, now_ns) if served.complete else None


def _with_hint(cluster: Cluster, subject: Subject) -> Subject:
    """Adds what sessions said of the job or did to the pod, as far as that is known by its name."""
    with cluster.book.lock:
        cluster.book.write_all()
        if subject.is_pod:
            return replace(subject, evicted=cluster.book.eviction_of(subject.key) is not None)
        story = cluster.book.story_named(subject.key)
    if story is None or not story.reasons:
        return replace(subject, waits=False, blocking="")
    named = next((reason.task for reason in story.reasons if reason.task), "")
    return replace(subject, waits=True, blocking=named)


def _subject(request: ExplainRequest) -> Subject:
    which = request.WhichOneof("subject")
    if which is None:
        raise errors.RequestFieldError("subject", "is missing: give job or pod")
    named = request.job if which == "job" else request.pod
    for field in ("namespace", "name"):
        value = getattr(named, field)
        if not value or "/" in value:
            problem = f"{value!r} is no name: it has a '/'" if value else "is missing"
            raise errors.RequestFieldError(f"{which}.{field}", problem)
    count = request.nearest_node_count
    if not 0 <= count <= _MOST_NODES:
        problem = f"{count} is not between 0 and {_MOST_NODES}"
        raise errors.RequestFieldError("nearest_node_count", problem)
    return Subject(named.namespace, named.name, which == "pod", count or _DEFAULT_NODES)


def _patience(request: ExplainRequest) -> float:
    if not request.HasField("max_wait"):
        return _PATIENCE_SECONDS
    seconds = request.max_wait.seconds + request.max_wait.nanos / 1e9
    if not 0 <= seconds <= _MOST_PATIENCE_SECONDS:
        problem = f"{seconds:g} s is not between 0 and {_MOST_PATIENCE_SECONDS} s"
        raise errors.RequestFieldError("max_wait", problem)
    return seconds


def _read(
    cluster: Cluster, subject: Subject, sight: Sight, records: list[SessionRecord]
) -> ExplainResponse:
    with cluster.book.lock:
        cluster.book.write_all()
        return _explained(cluster, subject, sight, records)


def _explained(
    cluster: Cluster, subject: Subject, sight: Sight, records: list[SessionRecord]
) -> ExplainResponse:
    book = cluster.book
    evicted = book.eviction_of(subject.key) if subject.is_pod else None
    job = sight.job or (evicted.order.job if evicted is not None else "")
    if not subject.is_pod and not job:
        job = subject.key
    story = book.story_of(job) if job else None
    known = bool(sight.job) or bool(sight.pod) or evicted is not None
    if not known and (subject.is_pod or story is None):
        kind = "pod" if subject.is_pod else "job"
        near = nearest_names(subject.key, sight.names)
        raise errors.UnknownSubjectError(kind, subject.key, near)
    sight.job = job
    sight.reasons = clarified(sight, story.reasons if story is not None else ())
    explanation = pb.Explanation(
        job=job,
        pod=subject.name if subject.is_pod else "",
        queue=sight.queue,
        phase=sight.phase,
        blocking_pod=sight.blocking,
        nearest_nodes=sight.nearest,
        stages=stages_of(sight, sight.reasons),
    )
    if story is not None:
        _tell_story(explanation, story, subject)
    elif evicted is not None:
        explanation.evictions.append(_eviction(evicted))
    _tell_placements(explanation, sight, story, records)
    explanation.sentence = sentence_of(sight, explanation)
    pause = cluster.served.pause
    if pause is not None:
        message = f"{pause.message[0].upper()}{pause.message[1:]}"
        explanation.sentence = f"{message}. {explanation.sentence}"
    return ExplainResponse(
        explanation=explanation,
        based_on_seq=sight.based_on_seq,
        session=sight.session,
        without_nodes=sight.without_nodes,
        pause=write_pause(cluster.served.pause),
    )


def _tell_story(explanation: pb.Explanation, story: Story, subject: Subject) -> None:
    explanation.history.extend(_period(period) for period in story.periods)
    explanation.evictions.extend(
        _eviction(evicted)
        for evicted in story.evictions
        if not subject.is_pod or evicted.pod == subject.key
    )


def _period(period: Period) -> pb.ReasonPeriod:
    return pb.ReasonPeriod(
        reason=write_reason(period.reason),
        first_seen_time=timestamp(period.first_ns),
        last_seen_time=timestamp(period.last_ns),
        session_count=period.sessions,
        current=period.current,
    )


def _eviction(evicted: Evicted) -> pb.Eviction:
    order = evicted.order
    return pb.Eviction(
        pod=order.name,
        node=order.node,
        for_job=order.for_job,
        reason=order.reason,
        session=evicted.session,
        decision_time=timestamp(evicted.now_ns),
        decision_id=order.id,
    )


def _tell_placements(
    explanation: pb.Explanation,
    sight: Sight,
    story: Story | None,
    records: list[SessionRecord],
) -> None:
    wanted = {uid: name for name, uid in sight.placed_uids.items()}
    sessions = set(story.bound_in) if story is not None else set()
    decided: dict[str, tuple[SessionRecord, Bind]] = {}
    for kept in records:
        if kept.number in sessions and kept.result is not None:
            for decision in kept.result.decisions:
                if decision.uid in wanted and isinstance(decision, Bind):
                    decided.setdefault(wanted[decision.uid], (kept, decision))
    for placement in sight.placements:
        if placement.pod in decided:
            kept, bind = decided[placement.pod]
            placement.session = kept.number
            placement.decision_time.CopyFrom(kept.summary.start_time)
            placement.decision_id = bind.id
            placement.action = kept.result.action_of(bind) if kept.result is not None else ""
        explanation.placements.append(placement)
