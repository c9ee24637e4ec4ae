"""How long things take in a world that never was: as they took in the recording, or as usual."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median_low

from pumice.recordings.history import History
from pumice.recordings.lives import BY_CLEANUP, BY_USER, PodLife

_SECOND_NS = 1_000_000_000


class Guesses:
    """The recorded times of each pod; the median of others where it has none of its own."""

    def __init__(self, history: History) -> None:
        self._history = history
        lives = history.pods.values()
        self._bind = _median((p.bound_ns - p.decided_ns for p in lives if _was_decided(p)), 0)
        self._start = _median((p.running_ns - p.bound_ns for p in lives if _has_started(p)), 0)
        self._notice = _median((_notice(p) for p in lives if p.evicted_ns and _end(p)), 0)
        self._grace = _median((p.gone_ns - _end(p) for p in lives if p.evicted_ns and p.gone_ns), 0)
        self._remake = _median(
            (history.pods[p.replaced_by].created_ns - p.gone_ns for p in lives if p.replaced_by),
            _SECOND_NS,
        )
        # How far the cluster's clock is ahead of the core's.
        self._ahead_ns = _median((_ahead(p) for p in lives if p.start_time_ns), 0)
        self._echo = _median(history.echoes_ns.values(), 0)
        finished = [p for p in lives if p.finished_ns]
        self._by_job = _medians(finished, lambda p: p.job)
        self._by_queue = _medians(finished, lambda p: history.jobs[p.job].queue)
        self._run = _median((p.run_ns for p in finished), -1)
        # Pods whose run time had to be guessed; and those that are taken to run on for ever.
        self.guessed_runs: set[str] = set()
        self.endless_runs: set[str] = set()

    def bind_ns(self, life: PodLife) -> int:
        return life.bound_ns - life.decided_ns if _was_decided(life) else self._bind

    def start_ns(self, life: PodLife) -> int:
        return life.running_ns - life.bound_ns if _has_started(life) else self._start

    def start_time_ns(self, life: PodLife, now_ns: int) -> int:
        """What the cluster says of a pod that starts now."""
        return now_ns + (_ahead(life) if life.start_time_ns else self._ahead_ns)

    def echo_ns(self, uid: str, now_ns: int) -> int:
        """From a session until a pod shows what was said about it."""
        return self._history.echoes_ns.get((uid, now_ns), self._echo)

    def notice_ns(self, life: PodLife) -> int:
        """From the decision to evict until the pod shows it."""
        return _notice(life) if life.evicted_ns and _end(life) else self._notice

    def grace_ns(self, life: PodLife) -> int:
        """From when a pod shows that it shall end until it is gone."""
        if life.gone_ns and (life.evicted_ns or life.terminating_ns):
            return life.gone_ns - _end(life)
        return self._grace

    def remake_ns(self, life: PodLife) -> int:
        """From a pod's end until another one is made in its place."""
        other = self._history.pods.get(life.replaced_by)
        return self._remake if other is None else max(other.created_ns - life.gone_ns, 0)

    def run_ns(self, life: PodLife) -> int | None:
        """None: it never ends by itself."""
        last = life
        while not last.finished_ns and last.replaced_by:
            last = self._history.pods[last.replaced_by]
        if last.finished_ns:
            return last.run_ns
        if last.ended_by in (BY_USER, BY_CLEANUP):
            # It ends when somebody ends it.
            return None
        if last.running_ns:
            self.endless_runs.add(life.uid)
            return None
        self.guessed_runs.add(life.uid)
        queue = self._history.jobs[life.job].queue if life.job in self._history.jobs else ""
        guess = self._by_job.get(life.job, self._by_queue.get(queue, self._run))
        return guess if guess >= 0 else None


def _was_decided(life: PodLife) -> bool:
    return bool(life.decided_ns) and life.bound_ns >= life.decided_ns


def _has_started(life: PodLife) -> bool:
    return bool(life.bound_ns) and life.running_ns >= life.bound_ns


def _ahead(life: PodLife) -> int:
    return life.start_time_ns - life.running_ns


def _end(life: PodLife) -> int:
    return life.terminating_ns or life.gone_ns


def _notice(life: PodLife) -> int:
    return max(_end(life) - life.evicted_ns, 0)


def _median(values: Iterable[int], default: int) -> int:
    held = list(values)
    return median_low(held) if held else default


def _medians(lives: Iterable[PodLife], key: Callable[[PodLife], str]) -> dict[str, int]:
    held: dict[str, list[int]] = {}
    for life in lives:
        held.setdefault(key(life), []).append(life.run_ns)
    return {name: median_low(values) for name, values in held.items()}
