"""Scores of domains by their usage, and of nodes by their distance to other tasks of a sub-job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from pumice.core.cache.hyper_nodes import NO_DOMAIN, Numbers
from pumice.core.cache.nodes import Floats
from pumice.core.cache.pods import Counts
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.memo import Memo
from pumice.core.model.resources import Number, Resources
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

# All tiers between the lowest and the highest count, even those without a HyperNode. If there are
# more tiers than this, only those with a HyperNode count.
_WIDEST_SPAN = 1_000


class DomainAmounts:
    """Sums over the nodes of every domain, at the beginning of the session.

    Placements and evictions of the session change the used amounts, but not the idle amounts. The
    sums are computed when they are first read.
    """

    def __init__(self, session: Session, weights: Mapping[str, int]) -> None:
        self._table = session.table
        self._tree = session.topology.tree
        self._weights = weights
        # The idle, used and future amounts at the beginning of the session, by column.
        self._at_opening = np.concatenate((self._table.idle, self._table.used, self._table.future))
        self._sums: Counts | None = None
        # The numbers of domains, by their names.
        self._numbers = Memo(self._find_numbers)
        # Changes since the sums were last read: class, rows, and 1 or -1.
        self._events: list[tuple[TaskClass, list[int], int]] = []

    # Sums, by column and number of the domain.

    def _summed(self) -> tuple[Counts, Counts, Counts, Counts]:
        """The idle, used, future and allocatable amounts."""
        if self._sums is None:
            names = self._tree.names
            rows = [np.flatnonzero(self._tree.rows_of(name)) for name in names]
            starts = np.cumsum([0, *(len(found) for found in rows)])
            amounts = np.concatenate((self._at_opening, self._table.allocatable)).astype(np.int64)
            running = np.zeros((len(amounts), int(starts[-1]) + 1), dtype=np.int64)
            np.cumsum(amounts[:, np.concatenate(rows)], axis=1, out=running[:, 1:])
            self._sums = running[:, starts[1:]] - running[:, starts[:-1]]
            self._at_opening = np.zeros((0, 0))
        width = len(self._table.columns)
        parts = [self._sums[n * width : (n + 1) * width] for n in range(4)]
        return parts[0], parts[1], parts[2], parts[3]

    # Events.

    def change(self, tasks: Sequence[Task], sign: int) -> None:
        """Records tasks of one class that were placed (1), or a task that was removed (-1)."""
        entries = self._table.entries
        rows = [row for task in tasks if (row := entries[task.node_name].row) >= 0]
        if rows:
            self._events.append((tasks[0].class_, rows, sign))

    def _count_events(self, used: Counts) -> None:
        """Adds the recorded changes to the used amounts."""
        by_class: defaultdict[TaskClass, Counter[int]] = defaultdict(Counter)
        for class_, rows, sign in self._events:
            for row in rows:
                by_class[class_][row] += sign
        self._events.clear()
        for class_, counts in by_class.items():
            totals = Counter[int]()
            for row, count in counts.items():
                for number in self._tree.domains_of(row) if count else ():
                    totals[number] += count
            if totals:
                request = self._table.vector(class_).astype(np.int64)
                used[:, list(totals)] += request[:, None] * np.array(list(totals.values()))

    # Questions.

    def with_room(self, numbers: Numbers, minimum: Resources, *, for_evicting: bool) -> Numbers:
        """The domains with enough idle or future amounts for the minimum.

        For evictions, these are the domains with enough allocatable amounts.
        """
        idle, _, future, allocatable = self._summed()
        if for_evicting:
            return numbers[self._at_least(allocatable[:, numbers], minimum)]
        fits = self._at_least(idle[:, numbers], minimum)
        if not fits.all():
            fits |= self._at_least(future[:, numbers], minimum)
        return numbers[fits]

    def _at_least(self, amounts: Counts, minimum: Resources) -> Mask:
        enough: Mask = np.ones(amounts.shape[1], dtype=np.bool_)
        for name, amount in minimum.items():
            column = self._table.column_of(name)
            if column is not None:
                enough &= amounts[column] >= amount
            elif amount > 0:
                enough[:] = False
        return enough

    def fullness(self, request: Resources, names: Sequence[str] | None = None) -> Scores:
        """The used fraction of domains with a request, from 0 to 1; 0 if the request does not fit.

        Without names, the result is for all domains, by number.
        """
        amounts = {name: request.get(name) for name in request.names()}
        return self._fullness(amounts, self._tree.names if names is None else names)

    def later_fullness(
        self, requests: Sequence[tuple[Resources, Resources]], names: Sequence[str]
    ) -> Scores:
        """The same for several requests, by request and domain, each after an earlier request."""
        resources = {tuple(request.names()) for request, _ in requests}
        if len(resources) != 1:
            return np.stack([self.later_fullness([pair], names)[0] for pair in requests])
        amounts = {
            name: np.array([[request.get(name) + before.get(name)] for request, before in requests])
            for name in resources.pop()
        }
        return np.zeros((len(requests), 1)) + self._fullness(amounts, names)

    def _find_numbers(self, names: tuple[str, ...]) -> Numbers:
        found = [self._tree.number_of(name) for name in names]
        return np.array([NO_DOMAIN if n is None else n for n in found], dtype=np.intp)

    def _fullness(self, requested: Mapping[str, Number | Counts], names: Sequence[str]) -> Scores:
        numbers = self._numbers[tuple(names)]
        _, used, _, allocatable = self._summed()
        if self._events:
            self._count_events(used)
        total: Floats = np.zeros(len(numbers))
        fits: Mask = numbers != NO_DOMAIN
        divisor = 0
        for name, amount in requested.items():
            weight, column = self._weights.get(name), self._table.column_of(name)
            if weight is None:
                continue
            if column is None:
                return np.zeros(len(numbers))
            future = used[column, numbers] + amount
            offered = allocatable[column, numbers]
            fits = fits & (future <= offered)
            total = total + weight * (future / np.maximum(offered, 1))
            divisor += weight
        return np.where(fits, total / divisor, 0.0) if divisor > 0 else np.zeros(len(numbers))


class NodeCloseness:
    """Prefers nodes that are close to the earlier tasks of a sub-job with a network topology."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tree = session.topology.tree
        # By domain, and by sub-job.
        self._by_domain = Memo(self._closeness_to)
        self._counts = Memo[SubJob, _TaskCounts](lambda sub_job: _TaskCounts(session, sub_job))

    def scores(self, sub_job: SubJob, rows: Rows) -> Scores | None:
        followed = self._session.topology.followed
        if not followed:
            return None
        lowest = self._tree.lowest_by_row[rows]
        scores: Scores = self._by_domain[followed][lowest]
        best = scores == scores.max()
        if np.count_nonzero(best) > 1:
            shares = self._counts[sub_job].counts()[lowest] / len(sub_job.index)
            scores = np.where(best, scores + shares, scores)
        return scores

    def _closeness_to(self, followed: str) -> Scores:
        """The closeness of each domain of the lowest tier, by number; the last entry is for no domain."""
        tree = self._tree
        low, high = tree.tier_numbers[0], tree.tier_numbers[-1]
        scores = np.zeros(len(tree.names) + 1)
        for number in np.unique(tree.lowest_by_row).tolist():
            if number == NO_DOMAIN:
                continue
            name = tree.names[number]
            tier = tree.tier_of(tree.common(name, followed))
            if name == followed or low == high:
                scores[number] = 1.0
            elif tier is not None:
                scores[number] = (high - tier) / (high - low)
        return scores

    def share_in(self, sub_job: SubJob, domain: str) -> float:
        """The fraction of a sub-job's tasks that are on nodes of a domain."""
        rows, row_of = self._tree.rows_of(domain), self._session.table.row_of
        placed = [row_of(task.node_name) for task in sub_job.index if task.node_name]
        inside = sum(1 for row in placed if row is not None and rows[row])
        return inside / len(sub_job.index)


class _TaskCounts:
    """The number of a sub-job's tasks in each domain of the lowest tier, as the session moves them."""

    def __init__(self, session: Session, sub_job: SubJob) -> None:
        self._session = session
        self._counts = np.zeros(len(session.topology.tree.names) + 1)
        # The number of the domain of each task, by uid.
        self._domains: dict[str, int] = {}
        self._position = len(session.moves.log)
        for task in sub_job.index:
            self._update(task.uid, task.node_name)

    def counts(self) -> Scores:
        """The counts by number of the domain; the last entry, for nodes in no domain, is 0."""
        log = self._session.moves.log
        for task in log[self._position :]:
            if task.uid in self._domains:
                self._update(task.uid, task.node_name)
        self._position = len(log)
        return self._counts

    def _update(self, uid: str, node_name: str) -> None:
        row = self._session.table.row_of(node_name)
        lowest = self._session.topology.tree.lowest_by_row
        number = NO_DOMAIN if row is None else int(lowest[row])
        before = self._domains.get(uid, NO_DOMAIN)
        self._domains[uid] = number
        if before != NO_DOMAIN:
            self._counts[before] -= 1
        if number != NO_DOMAIN:
            self._counts[number] += 1


class TierScores:
    """Prefers nodes in the fullest domains, for pods without a network topology.

    Lower tiers have more weight. A node without a domain of a tier gets the full score for the tier.
    """

    def __init__(self, session: Session, amounts: DomainAmounts, fading: float) -> None:
        self._tree = session.topology.tree
        self._amounts = amounts
        tiers = self._tree.tier_numbers
        if tiers[-1] - tiers[0] <= _WIDEST_SPAN:
            tiers = list(range(tiers[0], tiers[-1] + 1))
        self._weights = [(tier, power(fading, tier - 1)) for tier in tiers]
        self._total = 0.0
        for _, weight in self._weights:
            self._total += weight

    def scores(self, class_: TaskClass, rows: Rows) -> Scores | None:
        if not 0 < self._total < np.inf:
            return None
        by_domain = np.append(self._amounts.fullness(class_.request), 1.0)
        total: Scores = np.zeros(len(rows))
        for tier, weight in self._weights:
            total = total + weight * by_domain[self._tree.by_row(tier)[rows]]
        return total / self._total


def power(base: float, exponent: int) -> float:
    """A power by repeated squaring, in the order in which Go multiplies."""
    result, remaining = 1.0, abs(exponent)
    while remaining:
        if remaining & 1:
            result *= base
        base *= base
        remaining >>= 1
    if exponent >= 0:
        return result
    return 1 / result if result else np.inf
