"""The results of the jobs of a request, after the sessions of its trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pumice.core.cache.jobs import Job
from pumice.core.decisions import Bind, Evict, SessionResult
from pumice.core.model.status import TaskStatus
from pumice.server.explaining.explanation import explain_in_trial
from pumice.server.explaining.facts import Facts, Subject, nearest_names
from pumice.server.state import ClusterState
from pumice.server.whatif.request_objects import RequestObjects
from pumice.server.whatif.shortages import shortages_of
from pumice.server.whatif.verdicts import EmptyCluster, is_held, is_limited, verdict_of
from pumice.server.wire import write_decision, write_reason
from pumice.v1 import job_result_pb2 as pb
from pumice.v1.explanation_pb2 import Explanation
from pumice.v1.scheduling_service_pb2 import ExplainedObject

_PLACED = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
# Number of waiting jobs with an explanation and a verdict. Others have only their reasons.
MAX_EXPLAINED_JOBS = 20
# Number of gang members that are placed before the explained one, for one job and for several.
_EARLIER_ONE_JOB, _EARLIER_MANY_JOBS = 20_000, 1_000
_NEAREST_NODES = 5
# Number of nodes or pods that a sentence names.
_SHOWN_NAMES = 3


@dataclass(slots=True)
class TrialDecisions:
    """The decisions of all sessions of a trial, by job."""

    placed: dict[str, list[Bind]] = field(default_factory=dict)
    evictions: dict[str, list[Evict]] = field(default_factory=dict)
    # Jobs for which the last session evicted pods.
    evicting: set[str] = field(default_factory=set)

    def add(self, result: SessionResult) -> None:
        self.evicting = {each.for_job for each in result.decisions if isinstance(each, Evict)}
        for decision in result.decisions:
            if isinstance(decision, Bind):
                job = decision.gang.job if decision.gang is not None else ""
                self.placed.setdefault(job, []).append(decision)
            elif decision.for_job:
                self.evictions.setdefault(decision.for_job, []).append(decision)


class JobResults:
    """Makes the result of each job of a trial."""

    def __init__(
        self, state: ClusterState, request: RequestObjects, decisions: TrialDecisions, now_ns: int
    ) -> None:
        self._state = state
        self._request = request
        self._decisions = decisions
        self._now_ns = now_ns
        self._waits = {wait.job: wait.reasons for wait in state.engine.waits}
        self._empty: EmptyCluster | None = None
        self._explained = 0
        self._earlier = _EARLIER_ONE_JOB

    def all(self) -> Iterator[pb.JobResult]:
        """The results of the request's jobs, or of all jobs with decisions or waits."""
        request = self._request
        jobs: Iterable[str] = request.jobs
        if not request.jobs and not request.loose_pods:
            made = (*self._decisions.placed, *self._decisions.evictions, *self._waits)
            jobs = dict.fromkeys(name for name in made if name)
        if sum(job in self._waits for job in jobs) > 1:
            self._earlier = _EARLIER_MANY_JOBS
        for name in jobs:
            yield self._result(name)
        for key, uid in request.loose_pods.items():
            found = self._loose(key, uid)
            if found is not None:
                yield found

    def explained(self, wanted: Iterable[ExplainedObject]) -> Iterator[Explanation]:
        """Explanations of the jobs and pods that the request names."""
        for each in wanted:
            is_pod = each.WhichOneof("subject") == "pod"
            named = each.pod if is_pod else each.job
            subject = Subject(named.namespace, named.name, is_pod, _NEAREST_NODES)
            subject = replace(subject, max_earlier=self._earlier)
            explanation, facts = explain_in_trial(self._state, subject, self._waits, self._now_ns)
            if not facts.job and not facts.pod:
                near = ", ".join(nearest_names(subject.key, facts.names))
                self._request.problems.error(
                    "is neither in the request nor in the cluster, so it was not explained",
                    kind="pod" if is_pod else "job",
                    key=subject.key,
                    field="explained",
                    allowed=near,
                )
                explanation = Explanation()
            yield explanation

    def _result(self, name: str) -> pb.JobResult:
        job = self._state.engine.cache.jobs.get(name)
        result = pb.JobResult(job=name, queue=job.queue if job is not None else "")
        binds = self._decisions.placed.get(name, ())
        for bind in binds:
            result.placed.add(pod=f"{bind.namespace}/{bind.name}", node=bind.node)
        evictions = self._decisions.evictions.get(name, ())
        result.evictions.extend(write_decision(each).evict for each in evictions)
        counts = _counts(job)
        result.pending_count = counts.get(TaskStatus.PENDING, 0)
        if name in self._request.invalid_jobs:
            result.verdict = pb.JOB_VERDICT_INVALID
            result.sentence = f"{name} has invalid objects; see the problems."
            return result
        placed = sum(counts.get(status, 0) for status in _PLACED)
        if placed and not result.pending_count:
            result.verdict = pb.JOB_VERDICT_PLACED
            result.sentence = _placed(name, result, placed)
        elif job is None or job.group is None or not self._is_examined(job):
            self._set_not_examined(result, job)
        else:
            self._set_waiting(result, job, placed)
        return result

    def _is_examined(self, job: Job) -> bool:
        """Whether a session gave reasons for the job, or placed pods of it."""
        return job.id in self._waits or job.id in self._decisions.placed

    # Jobs that no session examined.

    def _set_not_examined(self, result: pb.JobResult, job: Job | None) -> None:
        cache = self._state.engine.cache
        uids = self._request.jobs.get(result.job, [])
        foreign = [cache.foreign[uid] for uid in uids if uid in cache.foreign]
        result.verdict = pb.JOB_VERDICT_NOT_EXAMINED
        waiting = [pod for pod in foreign if not pod.node_name]
        result.pending_count = max(result.pending_count, len(waiting))
        if waiting:
            names = sorted({pod.spec.scheduler_name or "none" for pod in waiting})
            whose = f"belong to another scheduler ({', '.join(names)})"
            result.sentence = f"{result.job}: {len(waiting)} of its pods {whose}."
        elif job is not None and job.group is None:
            result.sentence = (
                f"{result.job}: the PodGroup is neither in the request nor in the cluster."
            )
        elif result.pending_count:
            result.sentence = (
                f"{result.job}: no session examined its {result.pending_count} pending pods; a later "
                "session may."
            )
        elif job is None or not job.index.tasks:
            result.sentence = f"{result.job} has no pods."
        else:
            result.sentence = f"{result.job} has no pending pods."

    def _loose(self, key: str, uid: str) -> pb.JobResult | None:
        """The result of a pod without a PodGroup; None: the pod is placed already."""
        cache = self._state.engine.cache
        task = cache.tasks.get(uid)
        pod = task.pod if task is not None else cache.foreign.get(uid)
        if pod is None or pod.node_name:
            return None
        result = pb.JobResult(job=key, verdict=pb.JOB_VERDICT_NOT_EXAMINED, pending_count=1)
        name = pod.spec.scheduler_name
        result.sentence = (
            f"{key} has no PodGroup, so it is not scheduled."
            if task is not None
            else f"{key} belongs to another scheduler ({name or 'none'})."
        )
        return result

    # Jobs that wait.

    def _set_waiting(self, result: pb.JobResult, job: Job, placed: int) -> None:
        reasons = self._waits.get(job.id, ())
        self._explained += 1
        if self._explained > MAX_EXPLAINED_JOBS:
            result.reasons.extend(map(write_reason, reasons))
            result.sentence = (
                f"{job.id} waits; only the first {MAX_EXPLAINED_JOBS} waiting jobs are explained."
            )
            return
        namespace, _, name = job.id.partition("/")
        subject = Subject(namespace, name, False, _NEAREST_NODES, max_earlier=self._earlier)
        explanation, facts = explain_in_trial(self._state, subject, self._waits, self._now_ns)
        result.explanation.CopyFrom(explanation)
        result.sentence = explanation.sentence
        result.reasons.extend(map(write_reason, facts.reasons))
        result.shortages.extend(shortages_of(self._state.engine, facts))
        enough = placed and placed >= job.min_available
        if enough:
            result.verdict = pb.JOB_VERDICT_PARTLY_PLACED
        elif job.id in self._decisions.evicting:
            result.verdict = pb.JOB_VERDICT_AFTER_EVICTIONS
            result.sentence = _after_evictions(result)
        else:
            result.verdict = self._verdict(job, facts)

    def _verdict(self, job: Job, facts: Facts) -> pb.JobVerdict.ValueType:
        if is_held(facts.reasons):
            return pb.JOB_VERDICT_HELD
        if facts.too_large or not facts.node_count:
            return pb.JOB_VERDICT_NEVER_FITS
        total = self._state.engine.cache.table.sum_allocatable()
        if self._empty is None:
            self._empty = EmptyCluster(self._state)
        alone = self._empty.why_not(job, self._now_ns)
        if not alone:
            at_limit = is_limited(facts.reasons, total)
            return pb.JOB_VERDICT_AT_LIMIT if at_limit else pb.JOB_VERDICT_NOT_NOW
        return verdict_of(job, alone, total)


def _counts(job: Job | None) -> dict[TaskStatus, int]:
    if job is None:
        return {}
    return {status: len(tasks) for status, tasks in job.index.by_status.items() if tasks}


def _after_evictions(result: pb.JobResult) -> str:
    pods = [f"{each.namespace}/{each.name}" for each in result.evictions]
    shown = ", ".join(pods[:_SHOWN_NAMES])
    if len(pods) > _SHOWN_NAMES:
        shown += f" and {len(pods) - _SHOWN_NAMES} more pods"
    return f"{result.job} would start after these pods are evicted: {shown}."


def _placed(name: str, result: pb.JobResult, placed: int) -> str:
    nodes = list(dict.fromkeys(each.node for each in result.placed))
    if not nodes:
        return f"all pods of {name} are placed already."
    shown = ", ".join(nodes[:_SHOWN_NAMES])
    if len(nodes) > _SHOWN_NAMES:
        shown += f" and {len(nodes) - _SHOWN_NAMES} more nodes"
    pods = "its pod" if placed == 1 else f"all of its {placed} pods"
    return f"{name} would be placed: {pods} on {shown}."
