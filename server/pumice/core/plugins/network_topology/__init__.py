"""network-topology-aware: keeps a job within a domain of the network, and packs domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.model.resources import CPU, MEMORY, Resources
from pumice.core.plugins.network_topology.amounts import DomainAmounts
from pumice.core.plugins.network_topology.gradients import Gradients
from pumice.core.plugins.network_topology.nodes import NodeCloseness, NodeTerm, TierScores
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.hooks import EventHandler, Scores
from pumice.core.session.policies import CandidateTerms, DomainScore, PlainRule
from pumice.core.session.session import Session

_FULL = 100.0
_WEIGHT = "weight"
_CPU = "hypernode.binpack.cpu"
_MEMORY = "hypernode.binpack.memory"
_RESOURCES = "hypernode.binpack.resources"
_RESOURCE_PREFIX = "hypernode.binpack.resources."
_NORMAL_PODS = "hypernode.binpack.normal-pod.enable"
_FADING = "hypernode.binpack.normal-pod.fading"
_MOST_FOR_EVICTING = "hypernode.gradient.evict.max-hypernodes"
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use 1 instead")


class NetworkTopologyAwarePlugin:
    """Offers the domains that a job may be placed in, and scores domains and their nodes."""

    name: ClassVar[str] = "network-topology-aware"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            _WEIGHT: ArgumentType.INT,
            _CPU: ArgumentType.INT,
            _MEMORY: ArgumentType.INT,
            _RESOURCES: ArgumentType.STRING,
            _NORMAL_PODS: ArgumentType.BOOL,
            _FADING: ArgumentType.FLOAT,
            _MOST_FOR_EVICTING: ArgumentType.INT,
        },
        {_RESOURCE_PREFIX: ArgumentType.INT},
        {
            _WEIGHT: _NOT_NEGATIVE,
            _CPU: _NOT_NEGATIVE,
            _MEMORY: _NOT_NEGATIVE,
            _RESOURCE_PREFIX: _NOT_NEGATIVE,
            _FADING: Limit(at_least=0, otherwise="Volcano would use 0.8 instead"),
            _MOST_FOR_EVICTING: Limit(above=0, otherwise="Volcano would use 8 instead"),
        },
        defaults={
            _WEIGHT: 1,
            _CPU: 1,
            _MEMORY: 1,
            _RESOURCE_PREFIX: 1,
            _NORMAL_PODS: True,
            _FADING: 0.8,
            _MOST_FOR_EVICTING: 8,
        },
    )

    def __init__(self, options: PluginOptions) -> None:
        arguments = options.arguments
        self._factor = _FULL * arguments.integer(_WEIGHT, 1)
        self._weights = {CPU: arguments.integer(_CPU, 1), MEMORY: arguments.integer(_MEMORY, 1)}
        for part in arguments.text(_RESOURCES, "").split(","):
            if name := part.strip():
                # Cpu and memory have arguments of their own.
                weight = arguments.integer(_RESOURCE_PREFIX + name, 1)
                self._weights.setdefault(name, weight)
        self._scores_normal_pods = arguments.boolean(_NORMAL_PODS, default=True)
        self._fading = arguments.number(_FADING, 0.8)
        self._most_for_evicting = arguments.integer(_MOST_FOR_EVICTING, 8)

    def open(self, session: Session) -> None:
        self._session = session
        self._tree = session.topology.tree
        self._has_domains = len(self._tree.names) > 1
        self._amounts = DomainAmounts(session, self._weights)
        self._gradients = Gradients(session, self._amounts, self._most_for_evicting)
        self._closeness = NodeCloseness(session)
        self._tier_scores = TierScores(session, self._amounts, self._fading)
        # By sub-job or class.
        self._known_terms: dict[str | int, tuple[CandidateTerm, ...]] = {}
        hooks = session.hooks
        hooks.job_gradient[self.name] = self._job_gradient
        hooks.sub_job_gradient[self.name] = self._sub_job_gradient
        hooks.hyper_node_order[self.name] = DomainScore(
            self._domain_scores, self._closeness.share_in, self._factor
        )
        hooks.task_batch_score[self.name] = CandidateTerms(self._terms)
        hooks.is_plain[self.name] = PlainRule(self._is_class_plain, self._is_plain)
        hooks.handlers.append(
            EventHandler(
                self._amounts.allocated, self._amounts.deallocated, self._amounts.allocated_many
            )
        )

    # Which domains a job may be placed in.

    def _job_gradient(self, job: Job, start: str, for_evicting: bool) -> list[list[str]]:
        topology = self._session.topology
        limit = topology.limit_of(job)
        if limit is None:
            return [[start]]
        occupied = topology.occupied_by(job).job
        minimum = job.minimum()
        return self._gradients.of(limit, occupied, start, minimum, for_evicting=for_evicting)

    def _sub_job_gradient(self, sub_job: SubJob, start: str, for_evicting: bool) -> list[list[str]]:
        topology = self._session.topology
        limit = topology.limit_of(sub_job)
        if limit is None:
            return [[start]]
        occupied = topology.occupied_by_part(sub_job)
        minimum = Resources() if occupied else sub_job.pending_request()
        return self._gradients.of(limit, occupied, start, minimum, for_evicting=for_evicting)

    # Scores.

    def _domain_scores(self, sub_job: SubJob, names: Sequence[str]) -> Scores:
        # With those that are placed already, which so count twice: as Volcano does.
        return self._amounts.fullness(sub_job.index.total_request, names)

    def _terms(self, task: Task) -> tuple[CandidateTerm, ...]:
        """What is added to the scores of nodes; nothing where all of them get the same."""
        if not self._has_domains or self._is_plain(task):
            return ()
        sub_job = self._session.sub_job_of(task)
        follows = sub_job.network_topology is not None
        key = sub_job.id if follows else task.class_.number
        known = self._known_terms.get(key)
        if known is None:
            scores = self._closeness.of(sub_job) if follows else self._tier_scores.of(task.class_)
            known = self._known_terms[key] = (NodeTerm(scores, self._factor),)
        return known

    def _is_class_plain(self, _class: TaskClass) -> bool | None:
        # Without HyperNodes all nodes get the same.
        return None if self._has_domains else True

    def _is_plain(self, task: Task) -> bool:
        """Whether all nodes of the domain in which tasks are being placed get the same score."""
        if self._session.sub_job_of(task).network_topology is None:
            return not self._scores_normal_pods
        topology = self._session.topology
        return self._tree.is_level(topology.domain)
