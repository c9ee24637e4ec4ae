"""network-topology-aware: places a job within a HyperNode, and prefers full HyperNodes.

A domain is a HyperNode with its nodes. A gradient is a list of the domains in which a job or sub-job
may be placed, by tier. Domains are scored by their usage with the job, and nodes by their distance to
the placed tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import (
    Arguments,
    Limit,
    PluginOptions,
    boolean,
    by_name,
    integer,
    names,
    number,
)
from pumice.core.model.memo import Memo
from pumice.core.model.resources import CPU, MEMORY, Resources
from pumice.core.plugins.network_topology.scores import DomainAmounts, NodeCloseness, TierScores
from pumice.core.session.feasibility.candidate_terms import CandidateTerm, FollowingTerm
from pumice.core.session.hooks import EventHandler, Scores
from pumice.core.session.policies import CandidateTerms, DomainScore, Parts
from pumice.core.session.session import Session

_MAX_NODE_SCORE = 100.0
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use 1 instead")


class NetworkTopologyArguments(Arguments):
    """The weights of the scores, and the limit of domains for evictions."""

    weight = integer("weight", 1, "weight of the scores", _NOT_NEGATIVE)
    cpu = integer("hypernode.binpack.cpu", 1, "weight of cpu", _NOT_NEGATIVE)
    memory = integer("hypernode.binpack.memory", 1, "weight of memory", _NOT_NEGATIVE)
    resources = names(
        "hypernode.binpack.resources", "further resources in the score, separated by commas"
    )
    scores_normal_pods = boolean(
        "hypernode.binpack.normal-pod.enable",
        "also scores nodes for pods without a network topology",
        default=True,
    )
    fading = number(
        "hypernode.binpack.normal-pod.fading",
        0.8,
        "factor of the weight from one tier to the next, for pods without a network topology",
        Limit(at_least=0, otherwise="Volcano would use 0.8 instead"),
    )
    most_for_evicting = integer(
        "hypernode.gradient.evict.max-hypernodes",
        8,
        "maximum number of HyperNodes that are searched for victims",
        Limit(above=0, otherwise="Volcano would use 8 instead"),
    )
    resource_weights = by_name(
        integer("hypernode.binpack.resources.", 1, "weight of this resource", _NOT_NEGATIVE)
    )

    def weights(self) -> dict[str, int]:
        """The weight of each resource in the score."""
        others = {name: self.resource_weights[name] for name in self.resources}
        return {**others, CPU: self.cpu, MEMORY: self.memory}


class NetworkTopologyAwarePlugin:
    """Offers the domains that a job may be placed in, and scores domains and their nodes."""

    name: ClassVar[str] = "network-topology-aware"
    required: ClassVar[bool] = True
    arguments: ClassVar[type[Arguments]] = NetworkTopologyArguments

    def __init__(self, options: PluginOptions) -> None:
        self._arguments = NetworkTopologyArguments(options.arguments)
        self._factor = _MAX_NODE_SCORE * self._arguments.weight
        self._scores_normal_pods = self._arguments.scores_normal_pods

    def open(self, session: Session) -> None:
        self._session = session
        self._tree = session.topology.tree
        self._has_domains = len(self._tree.names) > 1
        self._amounts = DomainAmounts(session, self._arguments.weights())
        self._closeness = NodeCloseness(session)
        self._tier_scores = TierScores(session, self._amounts, self._arguments.fading)
        # Tasks with the same scores share one term object; the session compares terms by identity.
        self._near_terms = Memo[SubJob, tuple[CandidateTerm, ...]](
            lambda part: (FollowingTerm(partial(self._closeness.scores, part), self._factor),)
        )
        self._full_terms = Memo[TaskClass, tuple[CandidateTerm, ...]](
            lambda class_: (FollowingTerm(partial(self._tier_scores.scores, class_), self._factor),)
        )
        hooks = session.hooks
        hooks.job_gradient[self.name] = self._job_gradient
        hooks.sub_job_gradient[self.name] = self._sub_job_gradient
        hooks.hyper_node_order[self.name] = DomainScore(
            self._domain_scores, self._closeness.share_in, self._factor, self._later_scores
        )
        hooks.task_batch_score[self.name] = CandidateTerms(self._terms, self._is_class_plain)
        hooks.handlers.append(EventHandler.counting(self._amounts.change))

    # The domains in which a job may be placed.

    def _job_gradient(self, job: Job, start: str, for_evicting: bool) -> list[list[str]]:
        topology = self._session.topology
        limit = topology.limit_of(job)
        if limit is None:
            return [[start]]
        occupied = topology.occupied_by(job).job
        minimum = job.minimum()
        return self._gradients(limit, occupied, start, minimum, for_evicting=for_evicting)

    def _sub_job_gradient(self, sub_job: SubJob, start: str, for_evicting: bool) -> list[list[str]]:
        topology = self._session.topology
        limit = topology.limit_of(sub_job)
        if limit is None:
            return [[start]]
        occupied = topology.occupied_by_part(sub_job)
        minimum = Resources() if occupied else sub_job.pending_request()
        return self._gradients(limit, occupied, start, minimum, for_evicting=for_evicting)

    def _gradients(
        self, limit: int, occupied: str, start: str, minimum: Resources, *, for_evicting: bool
    ) -> list[list[str]]:
        """The domains at or below the start by tier, the lowest first; for evictions, the highest first.

        If the job occupies a domain, these are the domains below the highest allowed ancestor of that
        domain. Otherwise they are the domains with room for the minimum.
        """
        tree = self._tree
        root = self._root(limit, occupied, start)
        if tree.number_of(root) is None:
            return []
        gradients = []
        for tier, numbers in tree.levels_below(root):
            if tier > limit:
                break
            fitting = numbers
            if not occupied:
                fitting = self._amounts.with_room(numbers, minimum, for_evicting=for_evicting)
            if len(fitting):
                gradients.append([tree.names[number] for number in fitting.tolist()])
        return self._for_evicting(gradients) if for_evicting else gradients

    def _root(self, limit: int, occupied: str, start: str) -> str:
        """The domain in which the search begins; empty: there is none."""
        if not occupied:
            return start
        highest = ""
        for name in self._tree.ancestors_of(occupied):
            tier = self._tree.tier_of(name)
            if tier is None or tier > limit:
                break
            highest = name
        if not highest:
            return ""
        common = self._tree.common(start, highest)
        if common == highest:
            return start
        return highest if common == start else ""

    def _for_evicting(self, gradients: list[list[str]]) -> list[list[str]]:
        """The gradients from the highest tier, up to the maximum number of domains."""
        remaining = self._arguments.most_for_evicting
        result = []
        for domains in reversed(gradients):
            if remaining <= 0:
                break
            # Of too many domains, Volcano keeps the last ones.
            result.append(domains[-remaining:])
            remaining -= len(result[-1])
        return result

    # Scores.

    def _domain_scores(self, sub_job: SubJob, names: Sequence[str]) -> Scores:
        # As in Volcano, tasks that are already placed count twice.
        return self._amounts.fullness(sub_job.index.total_request, names)

    def _later_scores(self, parts: Parts, names: Sequence[str]) -> Scores:
        requests = [(part.index.total_request, before) for part, before in parts]
        return self._amounts.later_fullness(requests, names)

    def _terms(self, task: Task) -> tuple[CandidateTerm, ...]:
        """The terms of the score of nodes; none where all nodes get the same score."""
        if not self._has_domains:
            return ()
        sub_job = self._session.sub_job_of(task)
        if sub_job.network_topology is None:
            return self._full_terms[task.class_] if self._scores_normal_pods else ()
        # All nodes of one domain of the lowest tier get the same score.
        is_same = self._tree.has_one_lowest_domain(self._session.topology.domain)
        return () if is_same else self._near_terms[sub_job]

    def _is_class_plain(self, _class: TaskClass) -> bool | None:
        # Without HyperNodes all nodes get the same score.
        return None if self._has_domains else True
