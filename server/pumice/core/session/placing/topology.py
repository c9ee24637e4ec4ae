"""The domains in which a job may be placed: HyperNodes, nodes with an equal label, or the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.hyper_nodes import CLUSTER_TOP, NO_DOMAIN, HyperNodeTree
from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.task_index import TaskIndex
from pumice.core.model.fit import FitErrors, Mask
from pumice.core.model.group import NetworkTopology
from pumice.core.model.status import HOLDS_RESOURCES
from pumice.core.session.hooks import Rows
from pumice.core.session.policies import DomainScore, Parts

if TYPE_CHECKING:
    from pumice.core.session.session import Session

__all__ = ["CLUSTER_TOP", "Occupied", "Topology"]


@dataclass(slots=True)
class Occupied:
    """The lowest domains that contain a job and its sub-jobs; an empty name: nothing is placed."""

    job: str = ""
    # By the id of the sub-job.
    parts: dict[str, str] = field(default_factory=dict)


class Topology:
    """The nodes of domains, the domains to try for a job, and the domains that it occupies."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._occupied: dict[str, Occupied] = {}
        self.by_label = LabelDomains(session)
        # The domain in which tasks are being placed, and the lowest domain with the earlier tasks of
        # the same sub-job; empty: there are none, or the sub-job has no network topology.
        self.domain = CLUSTER_TOP
        self.followed = ""

    @cached_property
    def tree(self) -> HyperNodeTree:
        """The HyperNodes of this session."""
        return self._session.cache.hyper_node_tree

    @property
    def ready(self) -> bool:
        """Whether HyperNodes form a tree; otherwise jobs with a network topology wait."""
        return not self.tree.problem

    def nodes_of(self, domain: str) -> Mask | None:
        """The nodes of a domain by row; None: all of them."""
        return None if domain == CLUSTER_TOP else self.rows_of(domain)

    def rows_of(self, domain: str) -> Mask:
        labelled = domain in self.by_label
        return self.by_label.rows_of(domain) if labelled else self.tree.rows_of(domain)

    def positions_of(self, domain: str) -> Rows:
        """The same as positions in the table."""
        if domain in self.by_label:
            return self.by_label.positions_of(domain)
        return np.flatnonzero(self.tree.rows_of(domain))

    # The domains to try.

    def job_gradients(self, job: Job, start: str, *, for_evicting: bool) -> list[list[str]]:
        if job.topology_key:
            domains = self.by_label.of(job)
            return [domains] if domains else []
        for function in self._session.chains.flat("job_gradient"):
            gradients: list[list[str]] = function(job, start, for_evicting)
            return gradients
        return [[start]]

    def sub_job_gradients(
        self, sub_job: SubJob, start: str, *, for_evicting: bool
    ) -> list[list[str]]:
        for function in self._session.chains.flat("sub_job_gradient"):
            if start in self.by_label:
                break
            gradients: list[list[str]] = function(sub_job, start, for_evicting)
            return gradients
        return [[start]]

    def best_domain(self, sub_job: SubJob, domains: Sequence[str]) -> tuple[str, float]:
        """The domain with the highest score of all plugins; among equals the name decides."""
        totals = dict.fromkeys(sorted(domains), 0.0)
        functions = self._session.chains.flat("hyper_node_order")
        rows = {d: self.positions_of(d) for d in totals} if functions else {}
        for function in functions:
            for domain, score in function(sub_job, rows).items():
                totals[domain] += score
        best = max(totals, key=lambda domain: totals[domain])
        return best, totals[best]

    def score_alone(self, sub_job: SubJob, domain: str) -> float:
        """The score of a single domain."""
        rules = self._session.chains.all_of("hyper_node_order", DomainScore)
        if rules is None:
            return self.best_domain(sub_job, (domain,))[1]
        total = 0.0
        for rule in rules:
            total += float(rule.alone(sub_job, (domain,))[0])
        return total

    def ranked(self, sub_job: SubJob, domains: Sequence[str]) -> list[list[str]] | None:
        """The domains by their single scores, the best first; equal ones are in one list, by name.

        None: a plugin only scores several domains together.
        """
        rules = self._session.chains.all_of("hyper_node_order", DomainScore)
        if rules is None:
            return None
        names = sorted(domains)
        totals = np.zeros(len(names))
        for rule in rules:
            totals = totals + rule.alone(sub_job, names)
        groups: list[list[str]] = []
        before: float | None = None
        for position in np.argsort(-totals, kind="stable").tolist():
            score = float(totals[position])
            if score != before:
                groups.append([])
                before = score
            groups[-1].append(names[position])
        return groups

    def scores_after(self, parts: Parts, domains: Sequence[str]) -> NDArray[np.float64] | None:
        """The scores by sub-job and domain; None: they are only known after a placement."""
        rules = self._session.chains.all_of("hyper_node_order", DomainScore)
        if rules is None:
            return None
        scores = np.zeros((len(parts), len(domains)))
        for rule in rules:
            if rule.later is None:
                return None
            scores = scores + rule.factor * rule.later(parts, domains)
        return scores

    def is_first_by_name(self, sub_job: SubJob, domains: Sequence[str]) -> bool:
        """Whether the first one by name is the best of domains with equal scores."""
        if len(domains) == 1:
            return True
        rules = self._session.chains.all_of("hyper_node_order", DomainScore)
        if rules is None or len(rules) > 1:
            return False
        return not any(rule.bonus(sub_job, name) for rule in rules for name in domains)

    # Limits of tiers.

    def limit_of(self, part: Job | SubJob) -> int | None:
        """The highest tier that a job or sub-job may be spread over; None: there is no limit."""
        if isinstance(part, Job):
            return self._limit(part.group.network_topology if part.group else None)
        topology = part.network_topology
        if topology is None or topology.hard:
            return self._limit(topology)
        # The limit of the job also applies to a sub-job with a soft topology.
        of_job = self.limit_of(self._session.jobs[part.job_id])
        return self.tree.top_tier if of_job is None else of_job

    def _limit(self, topology: NetworkTopology | None) -> int | None:
        if topology is None:
            return None
        if not topology.hard:
            return self.tree.top_tier
        if topology.highest_tier is None and topology.highest_tier_name:
            return self.tree.tier_named(topology.highest_tier_name)
        return topology.highest_tier

    def unknown_tier(self, job: Job) -> str:
        """The name of a required tier that no HyperNode has; empty: there is none."""
        topologies = [job.group.network_topology] if job.group is not None else []
        topologies += [sub_job.network_topology for _, sub_job in sorted(job.sub_jobs.items())]
        for topology in topologies:
            if topology is None or not topology.hard or topology.highest_tier is not None:
                continue
            name = topology.highest_tier_name
            if name and self.tree.tier_named(name) is None:
                return name
        return ""

    def is_constrained(self, job: Job) -> bool:
        """Whether the job or a sub-job has a network topology, hard or soft, or a topology label."""
        return bool(job.topology_key) or self.widest_limit_of(job) is not None

    def widest_limit_of(self, job: Job) -> int | None:
        """The limit of the job; without one, the highest limit of its sub-jobs."""
        if job.group is None or not job.has_network_topology:
            return None
        limit = self.limit_of(job)
        if limit is not None or not job.has_policies:
            return limit
        limits = [self.limit_of(sub_job) for sub_job in job.sub_jobs.values()]
        return max((found for found in limits if found is not None), default=None)

    # Occupied domains, which are computed from pods, so that a restart loses nothing.

    def occupied_by(self, job: Job) -> Occupied:
        """The domains of a job at the beginning of the session, with committed placements."""
        known = self._occupied.get(job.id)
        if known is None:
            known = self._occupied[job.id] = Occupied()
            if job.has_network_topology and self.ready:
                known.job = self._lowest_of(job.index)
                for id_, sub_job in sorted(job.sub_jobs.items()):
                    if sub_job.network_topology is not None:
                        known.parts[id_] = self._lowest_of(sub_job.index)
        return known

    def occupied_by_part(self, sub_job: SubJob) -> str:
        job = self._session.jobs[sub_job.job_id]
        return self.occupied_by(job).parts.get(sub_job.id, "")

    def _lowest_of(self, tasks: TaskIndex) -> str:
        """The lowest domain with all placed tasks; empty: no task is placed."""
        moves, table, tree = self._session.moves, self._session.table, self.tree
        rows = set()
        for task in tasks:
            status, node_name = moves.origin_of(task)
            if status in HOLDS_RESOURCES:
                rows.add(table.row_of(node_name))
        # The domain of a deleted node is not known.
        placed = [row for row in rows if row is not None]
        if not placed:
            return ""
        names = [tree.names[number] for number in tree.domains_of(placed[0])]
        whole = [name for name in names if tree.rows_of(name)[placed].all()]
        return min(whole, key=lambda name: (tree.tier_of(name), name), default="")

    def occupy(self, job: Job, domain: str, parts: dict[str, str]) -> None:
        """Records that a job was placed in a domain, and its sub-jobs in inner domains."""
        known = self.occupied_by(job)
        known.job = self.tree.common(known.job, domain)
        for id_, inner in parts.items():
            known.parts[id_] = self.tree.common(known.parts.get(id_, ""), inner)

    def follow(self, row: int) -> None:
        """Records the node of a task of the sub-job that is being placed."""
        number = int(self.tree.lowest_by_row[row])
        if number != NO_DOMAIN:
            self.followed = self.tree.common(self.tree.names[number], self.followed)

    def located(self, errors: FitErrors, domain: str) -> FitErrors:
        """Adds the domain to the errors, unless it is the whole cluster."""
        return errors if domain == CLUSTER_TOP else replace(errors, hyper_node=domain)


class LabelDomains:
    """Domains of nodes with equal values of a label, for jobs that must stay within one of them.

    The name of a domain contains the label and its value; no HyperNode has such a name.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        # By label: the names of its domains by value.
        self._names: dict[str, dict[str, str]] = {}
        self._positions: dict[str, NDArray[np.intp]] = {}
        self._rows: dict[str, Mask] = {}
        # By job: the domains of a placed job, until the end of the session.
        self._kept: dict[str, list[str]] = {}

    def __contains__(self, domain: str) -> bool:
        return domain in self._positions

    def positions_of(self, domain: str) -> NDArray[np.intp]:
        return self._positions[domain]

    def rows_of(self, domain: str) -> Mask:
        rows = self._rows.get(domain)
        if rows is None:
            rows = self._rows[domain] = np.zeros(len(self._session.table), dtype=np.bool_)
            rows[self._positions[domain]] = True
            rows.setflags(write=False)
        return rows

    def of(self, job: Job) -> list[str]:
        """The domains in which the job may be placed: the domain of its pods, or else all domains."""
        known = self._kept.get(job.id)
        if known is None:
            names, inside = self._named(job.topology_key), self._occupied(job)
            if not inside:
                return sorted(names.values())
            value = next(iter(inside))
            known = [names[value]] if len(inside) == 1 and value in names else []
            self._kept[job.id] = known
        return known

    def within(self, job: Job) -> Mask:
        """The nodes of all these domains."""
        rows = np.zeros(len(self._session.table), dtype=np.bool_)
        for domain in self.of(job):
            rows[self._positions[domain]] = True
        return rows

    def problem(self, job: Job) -> str:
        """Why there is no domain for the job; empty: there is one."""
        key = job.topology_key
        if not self._named(key):
            return f"node(s) didn't have the label {key}"
        return "" if self.of(job) else f"pods of the job have no or several values of label {key}"

    def _named(self, key: str) -> dict[str, str]:
        known = self._names.get(key)
        if known is None:
            column = self._session.labels.column(key)
            order = np.argsort(column.codes, kind="stable")
            codes = column.codes[order]
            known = self._names[key] = {}
            for value, code in column.values.items():
                first, last = np.searchsorted(codes, (code, code + 1))
                if first < last:
                    known[value] = f"{key}={value}"
                    self._positions[known[value]] = order[first:last]
        return known

    def _occupied(self, job: Job) -> set[str | None]:
        """The values of the label on nodes that have pods of the job."""
        found: set[str | None] = set()
        entries = self._session.table.entries
        for task in job.index:
            entry = entries.get(task.node_name)
            # The domain of a deleted node is not known.
            if task.status in HOLDS_RESOURCES and entry is not None and entry.node is not None:
                found.add(entry.node.labels.get(job.topology_key))
        return found
