"""The domains in which a job may be placed: HyperNodes, or the whole cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.model.fit import FitErrors, Mask
from pumice.core.session.hooks import Rows

if TYPE_CHECKING:
    from pumice.core.session.session import Session

CLUSTER_TOP = "<cluster-top-hypernode>"


class Topology:
    """Which nodes a domain has, and which domains a job should try in which order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tree = session.cache.hyper_node_tree

    @property
    def ready(self) -> bool:
        """Whether HyperNodes form a tree; where they do not, jobs with a topology wait."""
        return not self._tree.problem

    def nodes_of(self, domain: str) -> Mask | None:
        """The nodes of a domain by row; None: all of them."""
        return None if domain == CLUSTER_TOP else self._tree.rows_of(domain)

    def job_gradients(self, job: Job, start: str, *, for_evicting: bool) -> list[list[str]]:
        for function in self._session.chains.flat("job_gradient"):
            gradients: list[list[str]] = function(job, start, for_evicting)
            return gradients
        return [[start]]

    def sub_job_gradients(
        self, sub_job: SubJob, start: str, *, for_evicting: bool
    ) -> list[list[str]]:
        for function in self._session.chains.flat("sub_job_gradient"):
            gradients: list[list[str]] = function(sub_job, start, for_evicting)
            return gradients
        return [[start]]

    def best_domain(self, sub_job: SubJob, domains: list[str]) -> tuple[str, float]:
        """The domain with the highest score of all plugins; among equals the name decides."""
        totals = dict.fromkeys(sorted(domains), 0.0)
        functions = self._session.chains.flat("hyper_node_order")
        rows = {d: self._rows_of(d) for d in totals} if functions else {}
        for function in functions:
            for domain, score in function(sub_job, rows).items():
                totals[domain] += score
        best = max(totals, key=lambda domain: totals[domain])
        return best, totals[best]

    def _rows_of(self, domain: str) -> Rows:
        within = self.nodes_of(domain)
        return np.arange(len(self._session.table)) if within is None else np.flatnonzero(within)

    def is_constrained(self, job: Job) -> bool:
        """Whether the job, or a part of it, must stay within some tier."""
        if job.group is None or not job.has_network_topology:
            return False
        topologies = [job.group.network_topology]
        topologies += [sub_job.network_topology for sub_job in job.sub_jobs.values()]
        return any(t is not None and (not t.hard or t.highest_tier is not None) for t in topologies)

    def marks(self, job: Job) -> dict[str, str]:
        """The HyperNodes of the sub-jobs, to be restored after a trial."""
        return {sub.id: sub.allocated_hyper_node for sub in job.sub_jobs.values()}

    def restore(self, job: Job, marks: dict[str, str]) -> None:
        for id_, hyper_node in marks.items():
            job.sub_jobs[id_].allocated_hyper_node = hyper_node

    def chosen(self, part: Job | SubJob, domain: str) -> None:
        """The best trial of a job or sub-job was in this domain."""
        if domain != CLUSTER_TOP:
            part.allocated_hyper_node = domain

    def follows(self, sub_job: SubJob) -> bool:
        """Whether the placement of a task depends on where earlier tasks of the sub-job are."""
        return sub_job.network_topology is not None

    def located(self, errors: FitErrors, domain: str) -> FitErrors:
        """Adds the domain to the errors, unless it is the whole cluster."""
        return errors if domain == CLUSTER_TOP else replace(errors, hyper_node=domain)
