"""The domains in which a job may be placed: HyperNodes, or the whole cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import FitErrors, Mask

if TYPE_CHECKING:
    from pumice.core.session.session import Session

CLUSTER_TOP = "<cluster-top-hypernode>"


class Topology:
    """Which nodes a domain has, and which domains a job should try in which order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Domains are unsound (a cycle, a child with two parents): topology jobs have to wait.
        self.ready = True

    def nodes_of(self, domain: str) -> Mask | None:
        """The nodes of a domain by row; None: all of them."""
        return None

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
        """The domain with the highest score; among equals the name decides."""
        return min(domains), 0.0

    def is_constrained(self, job: Job) -> bool:
        """Whether the job, or a part of it, must stay within some tier."""
        if job.group is None or not job.has_network_topology:
            return False
        topologies = [job.group.network_topology]
        topologies += [sub_job.network_topology for sub_job in job.sub_jobs.values()]
        return any(t is not None and (not t.hard or t.highest_tier is not None) for t in topologies)

    def marks(self, job: Job) -> dict[str, str]:
        """Where the sub-jobs stand, to be restored after a trial."""
        return {sub.id: sub.allocated_hyper_node for sub in job.sub_jobs.values()}

    def restore(self, job: Job, marks: dict[str, str]) -> None:
        for id_, hyper_node in marks.items():
            job.sub_jobs[id_].allocated_hyper_node = hyper_node

    def chosen(self, job: Job, domain: str) -> None:
        """The job's best trial was in this domain."""

    def chosen_for_sub_job(self, sub_job: SubJob, start: str, domain: str) -> None:
        """The sub-job's best trial, below that start, was in this domain."""

    def committed(self, job: Job) -> None:
        """The job's placements are decided."""

    def follows(self, sub_job: SubJob) -> bool:
        """Whether later tasks of the sub-job go by where earlier ones were placed."""
        return sub_job.network_topology is not None

    def placed(self, sub_job: SubJob, task: Task) -> None:
        """A task of the sub-job was placed: later ones may want to be near it."""

    def located(self, errors: FitErrors, domain: str) -> FitErrors:
        """Says in which domain no node was found, where that is not the whole cluster."""
        return errors if domain == CLUSTER_TOP else replace(errors, hyper_node=domain)
