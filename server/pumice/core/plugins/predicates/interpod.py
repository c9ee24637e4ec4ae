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
        # Tasks that had nothing to check once. As in Volcano, they stay marked for the session, even
        # if there is something to check later.
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
        """Marks tasks without required terms up to the first that has something to check.

        Returns the number of marked tasks.
        """
        meets_no_anti_affinity, labels = self._session.pods.meets_no_anti_affinity, None
        for number, task in enumerate(tasks):
            # Pods of a gang mostly have the same labels.
            if task.uid not in self._skipped and task.pod.labels != labels:
                if meets_no_anti_affinity(task.pod.labels):
                    labels = task.pod.labels
                elif self._objections(task):
                    return number
            self._skipped.add(task.uid)
            self._prepared.pop(task.uid, None)
        return len(tasks)

    def concerns(self, task: Task) -> bool:
        if task.uid in self._skipped:
            return False
        return has_required_terms(task.class_.spec) or bool(self._objections(task))

    def _objections(self, task: Task) -> list[ExistingTerm]:
        """The anti-affinity terms of pods on nodes that match the task.

        Only nodes count that had pods with anti-affinity when the session opened.
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
        conflicting: Mask | None = None
        if spec.required_anti_affinity:
            conflicting = self._violates_anti_affinity(task)
            refusals.append(Refusal(ANTI_AFFINITY, conflicting, unresolvable=False))
        refused = self._violates_existing(task)
        if refused is not None:
            # A node has only one reason, the first.
            rows = refused if conflicting is None else refused & ~conflicting
            refusals.append(Refusal(EXISTING, rows, unresolvable=False))
        return refusals

    def _count(self, key: tuple[TaskClass, str]) -> _Tallies:
        matching_all, spec, namespace = self._session.pods.matching_all, key[0].spec, key[1]
        near = spec.required_affinity
        return matching_all(namespace, near) if near else None, tuple(
            (term.topology_key, matching_all(namespace, (term,)))
            for term in spec.required_anti_affinity
        )

    def _violates_affinity(self, task: Task) -> Mask:
        """Nodes that lack a topology key, or matching pods in one of their domains."""
        matching = self._tallies[task.class_, task.pod.namespace][0]
        terms = task.class_.spec.required_affinity
        columns = [self._session.labels.column(term.topology_key) for term in terms]
        labelled: Mask = np.logical_and.reduce([column.present for column in columns])
        near, anywhere = labelled, False
        for term, column in zip(terms, columns, strict=True):
            # The last entry is for nodes without the label.
            by_value: Counts = np.zeros(len(column.values) + 1, dtype=np.int64)
            if matching is not None:
                by_value = matching.by_value(term.topology_key, column)
            anywhere = anywhere or bool(by_value.any())
            near = near & (by_value[column.codes] > 0)
        # The first of several pods with affinity to each other may be placed anywhere.
        is_first = not anywhere and self._session.pods.matches_own_affinity(task)
        return ~labelled if is_first else ~near

    def _violates_anti_affinity(self, task: Task) -> Mask:
        near: Mask = np.zeros(len(self._session.table), dtype=np.bool_)
        for key, conflicting_pods in self._tallies[task.class_, task.pod.namespace][1]:
            if conflicting_pods is not None and conflicting_pods.total:
                column = self._session.labels.column(key)
                near |= conflicting_pods.by_value(key, column)[column.codes] > 0
        return near

    def _violates_existing(self, task: Task) -> Mask | None:
        refused: Mask | None = None
        had = self._session.pods.had_anti_affinity
        for existing in self._objections(task):
            assert had is not None
            column = self._session.labels.column(existing.term.topology_key)
            here = column.in_domains_of([row for row in existing.rows if had[row]])
            refused = here if refused is None else refused | here
        return refused


class AffinitySimulation(Simulation):
    """Simulates inter-pod affinity, the only filter that Volcano evaluates in a dry run."""

    def __init__(self, session: Session, affinity: InterPodAffinity | None, row: int) -> None:
        self._session = session
        self._affinity = affinity
        self._row = row
        self._gone: dict[str, Task] = {}

    def remove(self, task: Task) -> str | None:
        self._gone[task.uid] = task
        return None

    def add(self, task: Task) -> str | None:
        self._gone.pop(task.uid, None)
        return None

    def why_not(self, task: Task) -> str | None:
        affinity, counts = self._affinity, self._session.cache.pods.change
        if affinity is None or not affinity.concerns(task):
            return None
        # The first evaluation creates all tallies, so that the changes below reach them.
        affinity.evaluate(task)
        seen = [gone for gone in self._gone.values() if self._session.moves.is_in_kube_view(gone)]
        for gone in seen:
            counts([self._row], [gone], -1)
        refusals = affinity.evaluate(task)
        for gone in seen:
            counts([self._row], [gone], 1)
        return next((refusal.reason for refusal in refusals if refusal.rows[self._row]), None)
