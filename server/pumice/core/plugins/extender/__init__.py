"""extender: delegates decisions to an HTTP service.

Each verb in the arguments is one hook: predicates and scores of nodes, victims, overused queues,
admission and readiness of jobs, and placements. The engine makes no calls: a question without an
answer is part of the session's result, and the task or job waits. The adapter asks the extender and
reports the answer as data, which a later session reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import (
    Argument,
    Arguments,
    Limit,
    PluginOptions,
    boolean,
    duration,
    text,
    texts,
)
from pumice.core.model.fit import Refusal, refusals_by_row
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.status import TaskStatus
from pumice.core.plugins.extender.answers import EXTENDER, Answer, Answers
from pumice.core.plugins.extender.bodies import job_body, node_body, queue_body, task_body
from pumice.core.session.hooks import ABSTAIN, PERMIT, REJECT, EventHandler, Rows, Scores
from pumice.core.session.policies import PlainRule
from pumice.core.session.session import Session

_VERB = re.compile(r"extender\.(\w+)Verb")


def _verb(point: str, meaning: str) -> Argument[str]:
    return text(f"extender.{point}Verb", "", f"path that {meaning}")


class ExtenderArguments(Arguments):
    """The address of the service, and the paths of its verbs."""

    url = text(
        "extender.urlPrefix",
        "",
        "address of the extender",
        Limit(pattern=r"https?://[^\s?#]+", form="an address such as http://host:port"),
    )
    timeout_ns = duration(
        "extender.httpTimeout", "1s", "timeout of one request", Limit(above=0, at_most=60)
    )
    ignorable = boolean(
        "extender.ignorable", "continues without the extender when it fails", default=False
    )
    managed = texts(
        "extender.managedResources", "only pods that request one of these concern the extender"
    )
    on_session_open = _verb("onSessionOpen", "receives jobs, nodes and queues when a session opens")
    on_session_close = _verb("onSessionClose", "is called when a session ends")
    predicate = _verb("predicate", "says whether a pod may use a node")
    prioritize = _verb("prioritize", "scores nodes")
    preemptable = _verb("preemptable", "says which pods preempt may evict")
    reclaimable = _verb("reclaimable", "says which pods reclaim may evict")
    queue_overused = _verb("queueOverused", "says whether a queue has reached its share")
    job_enqueueable = _verb("jobEnqueueable", "says whether a job is admitted")
    job_enqueued = _verb("jobEnqueued", "receives admitted jobs")
    job_ready = _verb("jobReady", "says whether enough pods of a job are placed")
    allocate = _verb("allocateFunc", "says whether a placement is allowed")
    deallocate = _verb("deallocateFunc", "receives pods whose placement is undone")

    def verbs(self) -> dict[str, str]:
        """The configured paths by verb."""
        return {
            found[1]: path
            for key, value in self.items()
            if (found := _VERB.fullmatch(key)) and (path := str(value).strip("/"))
        }


WAITING = "the extender has not answered yet"
NOT_SCORED = "the extender has not scored the nodes"
FAILED = "the extender failed"
_UNRESOLVABLE = 3
_LARGEST_SCORE = 1e15


class ExtenderPlugin:
    """Asks an HTTP service at the hooks for which a verb is configured."""

    name: ClassVar[str] = EXTENDER
    arguments: ClassVar[type[Arguments]] = ExtenderArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = ExtenderArguments(options.arguments)
        self._url = arguments.url.rstrip("/")
        self._timeout_ns = arguments.timeout_ns
        self._ignorable = arguments.ignorable
        self._managed = frozenset(arguments.managed)
        self._verbs = arguments.verbs()

    def open(self, session: Session) -> None:
        self._session, self._table = session, session.table
        self._answers = Answers(session, self._url, self._verbs, self._timeout_ns)
        # Jobs with a placement about which there is no answer yet.
        self._unanswered: set[str] = set()
        # Jobs for which the extender was asked about all pending tasks at once, so that a gang does
        # not wait for one answer after the other.
        self._asked_jobs: set[str] = set()
        if not self._url:
            return
        if "onSessionOpen" in self._verbs:
            answer = self._answers.get("onSessionOpen", "session", self._session_body)
            if answer.error and not self._ignorable:
                return
        self._register(session)

    def _register(self, session: Session) -> None:
        hooks = session.hooks
        functions: tuple[tuple[str, dict[str, Any], Any], ...] = (
            ("predicate", hooks.task_predicate, self._refusals),
            # A task waits for its scores.
            ("prioritize", hooks.task_predicate, self._refusals),
            ("prioritize", hooks.task_batch_score, self._scores),
            ("preemptable", hooks.preemptable, partial(self._victims, "preemptable")),
            ("reclaimable", hooks.reclaimable, partial(self._victims, "reclaimable")),
            ("queueOverused", hooks.overused, self._overused),
            ("jobEnqueueable", hooks.job_enqueueable, self._enqueueable),
            ("jobEnqueued", hooks.job_enqueued, self._enqueued),
            ("jobReady", hooks.job_ready, self._ready),
            # A job waits for the answers about its placements.
            ("allocateFunc", hooks.job_ready, self._ready),
            ("allocateFunc", hooks.sub_job_ready, lambda sub: sub.job_id not in self._unanswered),
        )
        for verb, point, function in functions:
            if verb in self._verbs:
                point[self.name] = function
        if self.name in hooks.task_predicate:
            hooks.is_plain[self.name] = PlainRule(self._is_class_plain, lambda _: False)
        if "allocateFunc" in self._verbs or "deallocateFunc" in self._verbs:
            hooks.handlers.append(EventHandler(self._allocated, self._deallocated))

    def close(self, session: Session) -> None:
        if self._url:
            self._answers.tell("onSessionClose", "close", dict)

    def next_wake(self, now_ns: int) -> int | None:
        """The time at which questions without an answer are asked again."""
        return self._answers.ask_again_ns

    def _is_class_plain(self, class_: TaskClass) -> bool:
        """Whether the extender manages none of the resources that a class requests."""
        return bool(self._managed) and not self._managed.intersection(class_.request.names())

    def _session_body(self) -> Mapping[str, Any]:
        session = self._session
        rows = range(len(self._table))
        return {
            "Jobs": {id_: job_body(job, with_tasks=False) for id_, job in session.jobs.items()},
            "Nodes": {self._table.names[row]: node_body(self._table, row) for row in rows},
            "Queues": {name: queue_body(queue) for name, queue in session.queues.items()},
            "NamespaceInfo": None,
            "RevocableNodes": None,
            "NodeList": None,
        }

    def _problem(self, answer: Answer) -> str:
        """Why an answer cannot be used; empty: it can be used, or its failure is ignored."""
        if answer.is_pending:
            return WAITING
        return f"{FAILED}: {answer.error}" if answer.error and not self._ignorable else ""

    # Nodes.

    def _refusals(self, task: Task) -> list[Refusal] | None:
        if self._is_class_plain(task.class_):
            return None
        rows = self._rows_for(task)
        refusals: dict[tuple[str, bool], list[int]] = {}
        if "predicate" in self._verbs:
            for row in rows.tolist():
                found = self._why_not(task, row)
                if found is not None:
                    refusals.setdefault(found, []).append(row)
        if "prioritize" in self._verbs and len(rows) and not refusals:
            problem = self._why_not_scored(task, rows)
            if problem:
                refusals[problem, True] = rows.tolist()
        if (WAITING, True) in refusals:
            self._ask_about_siblings(task)
        return refusals_by_row(refusals, len(self._table))

    def _rows_for(self, task: Task) -> Rows:
        """The nodes that are feasible for the other plugins."""
        view = self._session.view(task)
        return np.flatnonzero(view.open & view.fits_future)

    def _ask_about_siblings(self, task: Task) -> None:
        """Asks about all other pending tasks of the job at once."""
        job = self._session.jobs.get(task.job_id)
        if job is None or job.id in self._asked_jobs:
            return
        self._asked_jobs.add(job.id)
        for other in sorted(job.index.pending.values(), key=lambda sibling: sibling.order_key):
            if other is task or other.gated or self._is_class_plain(other.class_):
                continue
            rows = self._rows_for(other)
            if "predicate" in self._verbs:
                for row in rows.tolist():
                    self._why_not(other, row)
            if "prioritize" in self._verbs and len(rows):
                self._prioritized(other, rows)

    def _why_not(self, task: Task, row: int) -> tuple[str, bool] | None:
        """Why the extender refuses a node, and whether this is unresolvable."""
        answer = self._answers.get(
            "predicate",
            f"{task.uid}/{self._table.names[row]}",
            lambda: {"task": task_body(task), "node": node_body(self._table, row)},
        )
        problem = self._problem(answer)
        if problem:
            return problem, True
        status, code = answer.text("status"), answer.body.get("code")
        return (status, code in (_UNRESOLVABLE, 0, 1)) if status else None

    def _prioritized(self, task: Task, rows: Rows) -> Answer:
        return self._answers.get(
            "prioritize",
            task.uid,
            lambda: {
                "task": task_body(task),
                "nodes": [node_body(self._table, row) for row in rows.tolist()],
            },
        )

    def _why_not_scored(self, task: Task, rows: Rows) -> str:
        answer = self._prioritized(task, rows)
        problem = self._problem(answer)
        if problem or answer.error:
            return problem
        is_scored = isinstance(answer.body.get("nodeScore"), Mapping)
        return answer.text("errorMessage") or ("" if is_scored else NOT_SCORED)

    def _scores(self, task: Task, rows: Rows) -> Scores | None:
        if self._is_class_plain(task.class_):
            return None
        scores = self._prioritized(task, rows).body.get("nodeScore")
        if not isinstance(scores, Mapping):
            return None
        names = self._table.names
        return np.array([_number(scores.get(names[row])) for row in rows.tolist()], dtype=float)

    # Victims.

    def _victims(self, verb: str, evictor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        if self._is_class_plain(evictor.class_):
            return [], ABSTAIN
        uids = "\n".join(sorted(task.uid for task in candidates))
        answer = self._answers.get(
            verb,
            f"{evictor.uid}/{sha256(uids.encode()).hexdigest()[:32]}",
            lambda: {
                "evictor": task_body(evictor),
                "evictees": [task_body(task) for task in candidates],
            },
        )
        if answer.is_pending or answer.error:
            # No task is evicted before the extender has answered.
            return [], REJECT if answer.error and not self._ignorable else PERMIT
        named = answer.body.get("victims")
        chosen = {_uid(victim) for victim in named} if isinstance(named, list) else set()
        return [task for task in candidates if task.uid in chosen], answer.vote

    # Queues and jobs.

    def _overused(self, queue: Queue) -> bool:
        body = {"queue": queue_body(queue)}
        answer = self._answers.get("queueOverused", queue.name, lambda: body)
        return bool(self._problem(answer)) or answer.body.get("overused") is True

    def _enqueueable(self, job: Job) -> int:
        answer = self._job_answer("jobEnqueueable", job, job.id)
        if self._problem(answer):
            return REJECT
        return PERMIT if answer.error else answer.vote

    def _explain_waiting(self, job: Job) -> None:
        self._session.explain(job, Reason(self.name, ReasonCode.EXTENDER_WAITS))

    def _enqueued(self, job: Job) -> None:
        self._answers.tell("jobEnqueued", job.id, lambda: {"job": job_body(job)})

    def _ready(self, job: Job) -> bool:
        if job.id in self._unanswered:
            self._explain_waiting(job)
            return False
        return "jobReady" not in self._verbs or self._is_ready(job)

    def _is_ready(self, job: Job) -> bool:
        counts = [str(len(job.index.with_status(status))) for status in TaskStatus]
        answer = self._job_answer("jobReady", job, f"{job.id}/{'-'.join(counts)}")
        if answer.error:
            # As in Volcano, a job is ready if the extender fails and is not ignorable.
            return not self._ignorable
        return answer.body.get("status") is True

    def _job_answer(self, verb: str, job: Job, key: str) -> Answer:
        answer = self._answers.get(verb, key, lambda: {"job": job_body(job)})
        if answer.is_pending:
            self._explain_waiting(job)
        return answer

    # Placements.

    def _allocated(self, task: Task) -> str | None:
        if "allocateFunc" not in self._verbs or self._is_class_plain(task.class_):
            return None
        key = f"{task.uid}/{task.node_name}"
        answer = self._answers.get("allocateFunc", key, lambda: {"task": task_body(task)})
        if answer.is_pending and not task.best_effort:
            # The placement is kept, so that the rest of the gang is placed and asked about too. The
            # job is not ready without the answers, so that nothing is bound.
            self._unanswered.add(task.job_id)
            return None
        return self._problem(answer) or answer.text("errorMessage") or None

    def _deallocated(self, task: Task) -> None:
        if not self._is_class_plain(task.class_):
            key = f"{task.uid}/{task.node_name}"
            self._answers.tell("deallocateFunc", key, lambda: {"task": task_body(task)})


def _number(value: object) -> float:
    """A score; a value that is not a number, or is too large, counts as 0."""
    is_score = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_score and abs(value) < _LARGEST_SCORE else 0.0  # type: ignore[arg-type]


def _uid(victim: object) -> str:
    uid = victim.get("UID") if isinstance(victim, Mapping) else None
    return uid if isinstance(uid, str) else ""
