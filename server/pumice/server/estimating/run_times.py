"""Run times of pods that have ended, by job template and by queue."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import NamedTuple, TypeVar

from pumice.core.model.pod import Pod

K = TypeVar("K")
# Limits on stored run times. The oldest are dropped first.
MAX_TEMPLATES = 5_000
MAX_RUNS_OF_TEMPLATE = 50
MAX_TEMPLATE_QUEUES = 1_000
MAX_RUNS_OF_QUEUE = 500
MAX_GRACES = 200
# Pods of a job that end within this time of each other end with the job; only the longest counts.
_TOGETHER_NS = 1_000_000_000
# A suffix that controllers add to a name: a uid, a number, or five characters.
_GENERATED = re.compile(
    r"-(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+|[bcdfghjklmnpqrstvwxz2456789]{5})$"
)
# Prefix of PodGroups that a controller creates for pods without one; the uid of the owner follows.
_GENERATED_GROUP = "podgroup-"


class Template(NamedTuple):
    """A group of pods that are expected to have the same run time."""

    namespace: str
    queue: str
    # The name of the job without generated suffixes.
    name: str
    role: str


def template_of(pod: Pod, queue: str) -> Template:
    name = pod.group_name
    if not name or name.startswith(_GENERATED_GROUP):
        name = pod.controller_name or pod.name
    return Template(pod.namespace, queue, _without_suffixes(name), pod.role)


@lru_cache(maxsize=1024)
def _without_suffixes(name: str) -> str:
    """``train-28391`` and ``train-x7k2p`` become ``train``."""
    found = _GENERATED.search(name)
    while found is not None and found.start():
        name = name[: found.start()]
        found = _GENERATED.search(name)
    return name


@dataclass(frozen=True, slots=True)
class PastRuns:
    """Sorted run times, in nanoseconds."""

    by_template: Mapping[Template, tuple[int, ...]] = field(default_factory=dict)
    by_queue: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # Times from the begin of termination to the deletion of a pod.
    graces: tuple[int, ...] = ()


class RunTimes:
    """The last run times of each template and queue. Any thread may use it."""

    def __init__(self, older: RunTimes | None = None) -> None:
        """``older`` are additional run times, which count like the own ones."""
        self._older = older
        self._lock = Lock()
        self._by_template: OrderedDict[Template, deque[int]] = OrderedDict()
        self._by_queue: OrderedDict[str, deque[int]] = OrderedDict()
        # By template: job, run time and end time of the pod that ended last.
        self._last: OrderedDict[Template, tuple[str, int, int]] = OrderedDict()
        self._graces: deque[int] = deque(maxlen=MAX_GRACES)
        # The time at which a terminating pod was first seen, by uid.
        self._terminating: OrderedDict[str, int] = OrderedDict()

    def add(self, template: Template, job: str, run_ns: int, end_ns: int) -> None:
        """Adds the run time of a pod. Of pods that end together, only the longest run counts."""
        if run_ns <= 0:
            # The clocks of cluster and core differ by more than the run time.
            return
        with self._lock:
            last_job, last_ns, last_end_ns = self._last.get(template, ("", 0, 0))
            self._last[template] = (job, run_ns, end_ns)
            if len(self._last) > MAX_TEMPLATES:
                self._last.popitem(last=False)
            if job == last_job and end_ns - last_end_ns <= _TOGETHER_NS:
                longest_ns = max(run_ns, last_ns)
                self._last[template] = (job, longest_ns, end_ns)
                _correct(self._by_template.get(template), last_ns, longest_ns)
                _correct(self._by_queue.get(template.queue), last_ns, longest_ns)
                return
            _put(self._by_template, template, run_ns, MAX_TEMPLATES, MAX_RUNS_OF_TEMPLATE)
            _put(self._by_queue, template.queue, run_ns, MAX_TEMPLATE_QUEUES, MAX_RUNS_OF_QUEUE)

    def note_terminating(self, uid: str, now_ns: int) -> None:
        """Notes a terminating pod. Only the first call for a pod counts."""
        with self._lock:
            self._terminating.setdefault(uid, now_ns)
            while len(self._terminating) > MAX_GRACES:
                self._terminating.popitem(last=False)

    def note_deleted(self, uid: str, now_ns: int) -> None:
        if uid not in self._terminating:
            return
        with self._lock:
            since_ns = self._terminating.pop(uid, None)
            if since_ns is not None:
                self._graces.append(max(now_ns - since_ns, 0))

    def past(self) -> PastRuns:
        """A copy of the run times so far."""
        older = PastRuns() if self._older is None else self._older.past()
        with self._lock:
            return PastRuns(
                _merged(older.by_template, self._by_template),
                _merged(older.by_queue, self._by_queue),
                tuple(sorted([*older.graces, *self._graces])),
            )

    def __len__(self) -> int:
        """Number of run times stored by template."""
        with self._lock:
            return sum(map(len, self._by_template.values()))


def _correct(runs: deque[int] | None, old_ns: int, new_ns: int) -> None:
    """Replaces the last run time, if it is still that of the same job."""
    if runs and runs[-1] == old_ns:
        runs[-1] = new_ns


def _merged(
    older: Mapping[K, tuple[int, ...]], own: Mapping[K, deque[int]]
) -> dict[K, tuple[int, ...]]:
    found = {key: tuple(sorted((*runs, *older.get(key, ())))) for key, runs in own.items()}
    return {**older, **found}


def _put(held: OrderedDict[K, deque[int]], key: K, run_ns: int, most: int, runs: int) -> None:
    held.setdefault(key, deque(maxlen=runs)).append(run_ns)
    held.move_to_end(key)
    while len(held) > most:
        held.popitem(last=False)
