"""Scores of nodes: near to the other tasks of a sub-job, or in domains that are in use anyway."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.hyper_nodes import NO_DOMAIN
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.memo import Memo
from pumice.core.plugins.network_topology.amounts import DomainAmounts
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

# Tiers between the lowest and the highest one count even where no HyperNode has them. Where they
# are farther apart than this, only those count that some HyperNode has.
_WIDEST_SPAN = 1_000


class NodeCloseness:
    """Prefers nodes that are near to the earlier tasks of a sub-job with a network topology."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tree = session.topology.tree
        # By domain, and by sub-job.
        self._by_domain = Memo(self._closeness_to)
        self._places = Memo[SubJob, _Places](lambda sub_job: _Places(session, sub_job))

    def scores(self, sub_job: SubJob, rows: Rows) -> Scores | None:
        followed = self._session.topology.followed
        if not followed:
            return None
        lowest = self._tree.lowest_by_row[rows]
        scores: Scores = self._by_domain[followed][lowest]
        best = scores == scores.max()
        if np.count_nonzero(best) > 1:
            count = len(sub_job.index)
            shares = self._places[sub_job].counts()[lowest] / count
            scores = np.where(best, scores + shares, scores)
        return scores

    def _closeness_to(self, followed: str) -> Scores:
        """How near each domain of the lowest tier is, by number; the last one is for no domain."""
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
        """The fraction of a sub-job's tasks that is on the nodes of a domain."""
        rows, row_of = self._tree.rows_of(domain), self._session.table.row_of
        placed = [row_of(task.node_name) for task in sub_job.index if task.node_name]
        inside = sum(1 for row in placed if row is not None and rows[row])
        return inside / len(sub_job.index)


class _Places:
    """How many tasks of a sub-job are in each domain of the lowest tier; follows the session."""

    def __init__(self, session: Session, sub_job: SubJob) -> None:
        self._session = session
        self._counts = np.zeros(len(session.topology.tree.names) + 1)
        self._known: dict[str, int] = {}
        self._position = len(session.moves.log)
        for task in sub_job.index:
            self._look_at(task.uid, task.node_name)

    def counts(self) -> Scores:
        """By number of the domain; the last number is for nodes in none, of which none is counted."""
        log = self._session.moves.log
        for task in log[self._position :]:
            if task.uid in self._known:
                self._look_at(task.uid, task.node_name)
        self._position = len(log)
        return self._counts

    def _look_at(self, uid: str, node_name: str) -> None:
        row = self._session.table.row_of(node_name)
        lowest = self._session.topology.tree.lowest_by_row
        number = NO_DOMAIN if row is None else int(lowest[row])
        before = self._known.get(uid, NO_DOMAIN)
        self._known[uid] = number
        if before != NO_DOMAIN:
            self._counts[before] -= 1
        if number != NO_DOMAIN:
            self._counts[number] += 1


class TierScores:
    """Prefers nodes whose domains are the fullest, for pods without a network topology.

    Lower tiers count more. A node that is in no domain of a tier gets the full score there.
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
        by_domain = np.append(self._amounts.fullness_of_all(class_.request), 1.0)
        total: Scores = np.zeros(len(rows))
        for tier, weight in self._weights:
            total = total + weight * by_domain[self._tree.by_row(tier)[rows]]
        return total / self._total


def power(base: float, exponent: int) -> float:
    """A power by repeated squaring, in the order in which Go multiplies."""
    result, left = 1.0, abs(exponent)
    while left:
        if left & 1:
            result *= base
        base *= base
        left >>= 1
    if exponent >= 0:
        return result
    return 1 / result if result else np.inf
