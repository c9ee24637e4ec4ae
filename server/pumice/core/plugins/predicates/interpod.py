"""Required affinity and anti-affinity between pods, of the incoming pod and of pods on nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pumice.core.cache.pods import Counts, ExistingTerm, PodTally
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.pod import PodSpec
from pumice.core.plugins.predicates.filters import CountingFilter
from pumice.core.session.hooks import Simulation
from pumice.core.session.session import Session

NO_AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_Tallies = tuple[PodTally | None, tuple[tuple[str, PodTally | None], ...]]


def has_required_terms(spec: PodSpec) -> bool:
    return bool(spec.required_affinity or spec.required_anti_affinity)


class InterPodAffinity(CountingFilter):
    """Evaluates required terms with the pod counts of the session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        # Tasks about which there were no terms when they were first prepared. As in Volcano, the
        # filter skips them for the rest of the session, even if there are such terms later.
        self._skipped: set[str] = set()
        # By class and namespace.
        self._tallies = Memo(self._count)

    def of_class(self, class_: TaskClass) -> bool | None:
        """Whether this filter concerns a class; None: pods on nodes may have terms about its tasks."""
        if has_required_terms(class_.spec):
            return True
        return False if self._session.pods.had_anti_affinity is None else None

    def why_not_anywhere(self, task: Task) -> str | None:
        if not self.concerns(task):
            self._skipped.add(task.uid)
        return super().why_not_anywhere(task)

    def skips_first(self, tasks: Sequence[Task]) -> int:
        """Skips tasks without required terms, up to the first that an existing pod repels.

        Returns the number of skipped tasks.
        """
        meets_no_anti_affinity, labels = self._session.pods.meets_no_anti_affinity, None
        for number, task in enumerate(tasks):
            # Pods of a gang mostly have the same labels.
            if task.uid not in self._skipped and task.pod.labels != labels:
                if meets_no_anti_affinity(task.pod.labels):
                    labels = task.pod.labels
                elif self._repelling_terms(task):
                    return number
            self._skipped.add(task.uid)
            self._prepared.pop(task.uid, None)
        return len(tasks)

    def concerns(self, task: Task) -> bool:
        if task.uid in self._skipped:
            return False
        return has_required_terms(task.class_.spec) or bool(self._repelling_terms(task))

    def _repelling_terms(self, task: Task) -> list[ExistingTerm]:
        """The required anti-affinity terms of pods on nodes that match the task.

        As in Volcano, only nodes count that had pods with anti-affinity when the session opened.
        """
        had = self._session.pods.had_anti_affinity
        if had is None:
            return []
        columns = self._session.labels.column
        return [
            existing
            for existing in self._session.pods.anti_affinity_against(task)
            if any(
                had[r] and columns(existing.term.topology_key).codes[r] >= 0 for r in existing.rows
            )
        ]

    def evaluate(self, task: Task) -> list[Refusal]:
        spec = task.class_.spec
        refusals = []
        if spec.required_affinity:
            refusals.append(Refusal(NO_AFFINITY, self._violates_affinity(task), unresolvable=True))
        own: Mask | None = None
        if spec.required_anti_affinity:
            own = self._violates_anti_affinity(task)
            refusals.append(Refusal(ANTI_AFFINITY, own, unresolvable=False))
        existing = self._violates_existing(task)
        if existing is not None:
            # Kubernetes reports only the first reason of a node.
            rows = existing if own is None else existing & ~own
            refusals.append(Refusal(EXISTING, rows, unresolvable=False))
        return refusals

    def _count(self, key: tuple[TaskClass, str]) -> _Tallies:
        (class_, namespace), matching_all = key, self._session.pods.matching_all
        affinity = class_.spec.required_affinity
        return matching_all(namespace, affinity) if affinity else None, tuple(
            (term.topology_key, matching_all(namespace, (term,)))
            for term in class_.spec.required_anti_affinity
        )

    def _violates_affinity(self, task: Task) -> Mask:
        """Nodes without one of the topology keys, or without matching pods in one of their domains."""
        matching = self._tallies[task.class_, task.pod.namespace][0]
        terms = task.class_.spec.required_affinity
        columns = [self._session.labels.column(term.topology_key) for term in terms]
        labelled: Mask = np.logical_and.reduce([column.present for column in columns])
        satisfied, anywhere = labelled, False
        for term, column in zip(terms, columns, strict=True):
            # The last entry is for nodes without the label.
            by_value: Counts = np.zeros(len(column.values) + 1, dtype=np.int64)
            if matching is not None:
                by_value = matching.by_value(term.topology_key, column)
            anywhere = anywhere or bool(by_value.any())
            satisfied = satisfied & (by_value[column.codes] > 0)
        # The first of several pods with affinity to each other can be placed on any labelled node.
        is_first = not anywhere and self._session.pods.matches_own_affinity(task)
        return ~labelled if is_first else ~satisfied

    def _violates_anti_affinity(self, task: Task) -> Mask:
        violating: Mask = np.zeros(len(self._session.table), dtype=np.bool_)
        for key, matching in self._tallies[task.class_, task.pod.namespace][1]:
            if matching is not None and matching.total:
                column = self._session.labels.column(key)
                violating |= matching.by_value(key, column)[column.codes] > 0
        return violating

    def _violates_existing(self, task: Task) -> Mask | None:
        violating: Mask | None = None
        had = self._session.pods.had_anti_affinity
        for existing in self._repelling_terms(task):
            assert had is not None
            column = self._session.labels.column(existing.term.topology_key)
            domains = column.in_domains_of([row for row in existing.rows if had[row]])
            violating = domains if violating is None else violating | domains
        return violating


class AffinitySimulation(Simulation):
    """Simulates inter-pod affinity, the only filter that Volcano evaluates in a dry run."""

    def __init__(self, session: Session, affinity: InterPodAffinity | None, row: int) -> None:
        self._session = session
        self._affinity = affinity
        self._row = row
        self._removed: dict[str, Task] = {}

    def remove(self, task: Task) -> str | None:
        self._removed[task.uid] = task
        return None

    def add(self, task: Task) -> str | None:
        self._removed.pop(task.uid, None)
        return None

    def why_not(self, task: Task) -> str | None:
        affinity, change = self._affinity, self._session.cache.pods.change
        if affinity is None or not affinity.concerns(task):
            return None
        # The first evaluation creates all tallies, so that the changes below reach them.
        affinity.evaluate(task)
        is_counted = self._session.moves.is_in_kube_view
        counted = [removed for removed in self._removed.values() if is_counted(removed)]
        for removed in counted:
            change([self._row], [removed], -1)
        refusals = affinity.evaluate(task)
        for removed in counted:
            change([self._row], [removed], 1)
        return next((refusal.reason for refusal in refusals if refusal.rows[self._row]), None)
