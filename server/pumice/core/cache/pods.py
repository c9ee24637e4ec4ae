"""Indexes of the pods on nodes for affinity, spread and port rules.

This is Kubernetes' view of the nodes: the node table reports every pod that enters or leaves it.
Most pods have no such rules and match none; for them only the class is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.labels import LabelColumn
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.selector_index import SelectorIndex, demanded
from pumice.core.cache.tasks import Task
from pumice.core.model.integers import add_amount, change_member
from pumice.core.model.pod import HostPort, PodAffinityTerm, PodSpec
from pumice.core.model.selectors import LabelSelector

Counts = NDArray[np.int64]
# Small, because there may be thousands of tallies with a number for each node.
SmallCounts = NDArray[np.int32]
ANY_ADDRESS = "0.0.0.0"

# A tally is dropped after this many sessions without a query.
_KEPT_SESSIONS = 10
# A tally with pods on more rows than this has an array.
_MOST_ROWS = 64


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """The pods that a tally counts."""

    # None: all namespaces.
    namespaces: frozenset[str] | None
    selector: LabelSelector
    # Without terminating pods.
    alive: bool

    def counts(self, task: Task) -> bool:
        """Whether a pod that matches the selector is counted."""
        pod = task.pod
        return (self.namespaces is None or pod.namespace in self.namespaces) and not (
            self.alive and pod.terminating
        )


class PodTally:
    """How many pods of one kind there are, by row and by value of a node label.

    Most tallies count the pods of one job, which are on few rows: they get an array when it is read.
    """

    __slots__ = ("_by_value", "_counts", "_nobody", "_rows", "age", "question", "total")

    def __init__(self, question: PodQuestion, nobody: SmallCounts) -> None:
        self.question = question
        self.total = 0
        self.age = 0
        # Zero for every row; shared by all tallies, and read-only.
        self._nobody = nobody
        # Pods by row, as long as there is no array.
        self._rows: dict[int, int] = {}
        self._counts: SmallCounts | None = None
        self._by_value: dict[str, tuple[LabelColumn, Counts]] = {}

    @property
    def counts(self) -> SmallCounts:
        """Pods by row. Once there are pods, it is the same array every time, and follows changes."""
        if self._rows:
            self._fill()
        return self._nobody if self._counts is None else self._counts

    def _fill(self) -> None:
        self._counts = self._nobody.copy()
        self._counts[[*self._rows]] = [*self._rows.values()]
        self._rows.clear()

    def change(self, row: int, sign: int) -> None:
        self.total += sign
        if self._counts is not None:
            self._counts[row] += sign
        else:
            self._rows[row] = self._rows.get(row, 0) + sign
            if len(self._rows) > _MOST_ROWS:
                self._fill()
        for column, values in self._by_value.values():
            code = column.codes[row]
            if code >= 0:
                values[code] += sign

    def by_value(self, key: str, column: LabelColumn) -> Counts:
        """Pods by the codes of the column; one more entry, which stays 0, is read by code -1."""
        known = self._by_value.get(key)
        if known is None or known[0] is not column:
            present = column.codes >= 0
            sums = np.bincount(
                column.codes[present],
                weights=self.counts[present],
                minlength=len(column.values) + 1,
            )
            known = self._by_value[key] = (column, sums.astype(np.int64))
        return known[1]


# Value -> uid -> (task, row).
_PodsByValue = dict[str, dict[str, tuple[Task, int]]]


@dataclass(slots=True)
class _LabelledPods:
    """Pods on nodes by the value of one label, and the last session with a query for them."""

    by_value: _PodsByValue = field(default_factory=dict)
    age: int = 0


class ExistingTerm:
    """An affinity term of pods on nodes, and the rows of these pods."""

    __slots__ = ("namespaces", "rows", "term", "weight")

    def __init__(self, term: PodAffinityTerm, owner_namespace: str, weight: int) -> None:
        self.term = term
        self.namespaces = frozenset(term.namespaces)
        if not term.namespaces and term.namespace_selector is None:
            self.namespaces = frozenset((owner_namespace,))
        # Below zero for anti-affinity; 0 for required terms.
        self.weight = weight
        # The number of pods with the term, by row.
        self.rows: dict[int, int] = {}


_TermKey = tuple[PodAffinityTerm, str, int]


class TermIndex:
    """The terms of one kind that pods on nodes have."""

    def __init__(
        self, terms_of: Callable[[PodSpec], Iterable[tuple[PodAffinityTerm, int]]]
    ) -> None:
        self._terms_of = terms_of
        self._terms: dict[_TermKey, ExistingTerm] = {}
        # The same terms by their selectors; rebuilt only between sessions.
        self.selectors: SelectorIndex[ExistingTerm] = SelectorIndex()
        # By class and namespace, because a comparison of terms is slow; cleared between sessions.
        self._by_class: dict[tuple[int, str], list[ExistingTerm]] = {}

    def change(self, task: Task, row: int, sign: int) -> None:
        key = (task.class_.number, task.pod.namespace)
        terms = self._by_class.get(key)
        if terms is None:
            terms = self._by_class[key] = self._terms_for(task)
        for term in terms:
            add_amount(term.rows, row, sign)

    def _terms_for(self, task: Task) -> list[ExistingTerm]:
        terms = []
        for term, weight in self._terms_of(task.class_.spec):
            key = (term, task.pod.namespace, weight)
            known = self._terms.get(key)
            if known is None:
                known = self._terms[key] = ExistingTerm(term, task.pod.namespace, weight)
                self.selectors.add(term.selector, known)
            terms.append(known)
        return terms

    def find(self, task: Task) -> list[ExistingTerm]:
        """The terms whose selector selects the task; the caller compares namespaces."""
        return [term for term in self.selectors.find(task.pod.labels) if term.rows]

    def prune(self) -> None:
        """Forgets the terms without pods, once most terms are without."""
        self._by_class.clear()
        live = {key: term for key, term in self._terms.items() if term.rows}
        if 2 * len(live) >= len(self._terms):
            return
        self._terms = live
        self.selectors = SelectorIndex()
        for (spec, _, _), term in self._terms.items():
            self.selectors.add(spec.selector, term)


class PodIndex:
    """Indexes for rules about other pods; updated with the node table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = -1
        # The weight of required affinity terms as preferences; 0: they are none.
        self.hard_affinity_weight = 0
        self._age = 0
        self._reset()

    def _reset(self) -> None:
        rows = len(self._table)
        self._nobody: SmallCounts = np.zeros(rows, dtype=np.int32)
        self.affinity_pods: Counts = np.zeros(rows, dtype=np.int64)
        self.anti_affinity_pods: Counts = np.zeros(rows, dtype=np.int64)
        self.required_anti = TermIndex(lambda spec: [(t, 0) for t in spec.required_anti_affinity])
        self.preferred = TermIndex(self._preferences)
        # Used ports: (protocol, port) -> (address, row) -> pods.
        self._ports: dict[tuple[str, int], dict[tuple[str, int], int]] = {}
        # Pods with volumes: row -> uid -> task.
        self.with_volumes: dict[int, dict[str, Task]] = {}
        # Their changes in this session: row, task, and whether it entered (1) or left (-1).
        self.volume_log: list[tuple[int, Task, int]] = []
        self._tallies: dict[PodQuestion, PodTally] = {}
        self._asked: SelectorIndex[PodTally] = SelectorIndex()
        # By label, for the labels that queries have named.
        self._by_label: dict[str, _LabelledPods] = {}

    def _preferences(self, spec: PodSpec) -> list[tuple[PodAffinityTerm, int]]:
        weight = self.hard_affinity_weight
        return [
            *((t.term, t.weight) for t in spec.preferred_affinity),
            *((t.term, -t.weight) for t in spec.preferred_anti_affinity),
            *((term, weight) for term in spec.required_affinity if weight),
        ]

    # Updates.

    def settle(self) -> None:
        """Prepares the indexes for a session, at whose start both views of the nodes agree."""
        self._age += 1
        if self._layout != self._table.layout:
            self._layout = self._table.layout
            self._reset()
            for row, entry in enumerate(self._table.rows):
                for task in entry.tasks.values():
                    if task.class_.is_indexed:
                        self._change_indexed(row, task, 1)
        self.volume_log.clear()
        self._prune()

    def _prune(self) -> None:
        self.required_anti.prune()
        self.preferred.prune()
        oldest = self._age - _KEPT_SESSIONS
        kept = {q: t for q, t in self._tallies.items() if t.age > oldest}
        if len(kept) < len(self._tallies):
            self._tallies, self._asked = kept, SelectorIndex()
            for question, tally in kept.items():
                self._asked.add(question.selector, tally)
        if all(pods.age > oldest for pods in self._by_label.values()):
            return
        for demand in filter(None, [demanded(question.selector) for question in kept]):
            self._by_label[demand.key].age = self._age
        self._by_label = {key: pods for key, pods in self._by_label.items() if pods.age > oldest}

    def change(self, rows: list[int], tasks: list[Task], sign: int) -> None:
        """Counts tasks of one class that entered (1) or left (-1) Kubernetes' view of these rows."""
        is_indexed = tasks[0].class_.is_indexed
        is_concerned = is_indexed or self._tallies or self._by_label
        if not is_concerned or self._layout != self._table.layout:
            return
        labels: Mapping[str, str] | None = None
        for row, task in zip(rows, tasks, strict=True):
            if is_indexed:
                self._change_indexed(row, task, sign)
            # Pods of a gang mostly have the same labels.
            if task.pod.labels != labels:
                labels = task.pod.labels
                tallies = self._asked.find(labels)
            for tally in tallies:
                if tally.question.counts(task):
                    tally.change(row, sign)
            for key, pods in self._by_label.items():
                if key in labels:
                    change_member(pods.by_value, labels[key], task.uid, (task, row), sign)

    def _change_indexed(self, row: int, task: Task, sign: int) -> None:
        spec = task.class_.spec
        if spec.has_pod_affinity:
            self.affinity_pods[row] += sign
            if spec.required_anti_affinity:
                self.anti_affinity_pods[row] += sign
            self.required_anti.change(task, row, sign)
            self.preferred.change(task, row, sign)
        for port in spec.host_ports:
            key = (port.protocol, port.port)
            add_amount(self._ports.setdefault(key, {}), (port.ip, row), sign)
            if not self._ports[key]:
                del self._ports[key]
        if spec.volumes:
            self.volume_log.append((row, task, sign))
            change_member(self.with_volumes, row, task.uid, task, sign)

    # Queries.

    def rows_with_port(self, port: HostPort) -> list[int]:
        """The rows where another pod uses the port."""
        return [
            row
            for address, row in self._ports.get((port.protocol, port.port), ())
            if ANY_ADDRESS in (address, port.ip) or address == port.ip
        ]

    def tally(self, question: PodQuestion, in_view: Callable[[Task], bool]) -> PodTally:
        """The tally of a question, updated from now on; ``in_view`` tells whether it counts a task."""
        tally = self._tallies.get(question)
        if tally is None:
            tally = PodTally(question, self._nobody)
            for task, row in self._candidates(question.selector, in_view):
                if question.counts(task) and question.selector.matches(task.pod.labels):
                    tally.change(row, 1)
            self._tallies[question] = tally
            self._asked.add(question.selector, tally)
        tally.age = self._age
        return tally

    def _candidates(
        self, selector: LabelSelector, in_view: Callable[[Task], bool]
    ) -> Iterator[tuple[Task, int]]:
        demand = demanded(selector)
        if demand is None:
            yield from self._all(in_view)
            return
        by_value = self._labelled(demand.key, in_view)
        for value in dict.fromkeys(demand.values):
            yield from by_value.get(value, {}).values()

    def selects_none(self, selector: LabelSelector, in_view: Callable[[Task], bool]) -> bool:
        """Whether it is certain that no pod on a node matches the selector.

        Such is the selector of a Service whose first pod is about to be placed.
        """
        demand = demanded(selector)
        if demand is None:
            return False
        return self._labelled(demand.key, in_view).keys().isdisjoint(demand.values)

    def _labelled(self, label: str, in_view: Callable[[Task], bool]) -> _PodsByValue:
        """The pods with a label by its value, updated from now on."""
        pods = self._by_label.get(label)
        if pods is None:
            pods = self._by_label[label] = _LabelledPods()
            for task, row in self._all(in_view):
                value = task.pod.labels.get(label)
                if value is not None:
                    pods.by_value.setdefault(value, {})[task.uid] = (task, row)
        pods.age = self._age
        return pods.by_value

    def _all(self, in_view: Callable[[Task], bool]) -> Iterator[tuple[Task, int]]:
        for row, entry in enumerate(self._table.rows):
            for task in entry.tasks.values():
                if in_view(task):
                    yield task, row
