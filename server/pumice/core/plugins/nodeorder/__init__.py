"""nodeorder: the weighted sum of Kubernetes' node scores.

The scores are those for idle, used and balanced resources, node affinity, taints, images,
inter-pod affinity, and topology spread.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, Limit, PluginOptions, integer
from pumice.core.model.memo import Memo
from pumice.core.plugins.nodeorder.preferences import (
    ImageLocality,
    InterPodPreferences,
    NodePreferences,
)
from pumice.core.plugins.nodeorder.spread import SpreadPreferences
from pumice.core.session.feasibility.candidate_terms import CandidateTerm, FollowingTerm
from pumice.core.session.feasibility.terms import AmountScore
from pumice.core.session.policies import CandidateTerms, ClassRule, RowTerms
from pumice.core.session.session import Session

GPU = "nvidia.com/gpu"
_NOT_NEGATIVE = Limit(at_least=0, lenient=True, otherwise="a negative weight inverts the score")


class NodeOrderArguments(Arguments):
    """Weights of scores. A weight of 0 switches a score off; a negative weight inverts it."""

    least = integer("leastrequested.weight", 1, "weight of idle cpu and memory", _NOT_NEGATIVE)
    most = integer("mostrequested.weight", 0, "weight of cpu and memory in use", _NOT_NEGATIVE)
    balanced = integer("balancedresource.weight", 1, "weight of balanced use", _NOT_NEGATIVE)
    node_affinity = integer("nodeaffinity.weight", 2, "weight of node affinity", _NOT_NEGATIVE)
    pod_affinity = integer("podaffinity.weight", 2, "weight of inter-pod affinity", _NOT_NEGATIVE)
    taints = integer(
        "tainttoleration.weight", 3, "weight of PreferNoSchedule taints", _NOT_NEGATIVE
    )
    images = integer("imagelocality.weight", 1, "weight of images on the node", _NOT_NEGATIVE)
    spread = integer("podtopologyspread.weight", 2, "weight of topology spread", _NOT_NEGATIVE)


class NodeOrderPlugin:
    """Sums scores from 0 to 100, each times its weight; every score is a whole number."""

    name: ClassVar[str] = "nodeorder"
    arguments: ClassVar[type[Arguments]] = NodeOrderArguments

    def __init__(self, options: PluginOptions) -> None:
        self._weights = NodeOrderArguments(options.arguments)

    def open(self, session: Session) -> None:
        weights, hooks = self._weights, session.hooks
        if weights.least or weights.most or weights.balanced:
            amounts = Memo(self._amount_score)
            hooks.row_batch_score[self.name] = RowTerms(lambda class_: amounts[class_])
        if weights.images:
            images = ImageLocality(session)
            hooks.class_score[self.name] = ClassRule(
                lambda class_, _facet: weights.images * images.score(class_),
                version_of=images.version,
            )
        self._nodes = NodePreferences(session, weights.node_affinity, weights.taints)
        self._pods = InterPodPreferences(session) if weights.pod_affinity else None
        self._spread = SpreadPreferences(session, weights.spread) if weights.spread else None
        hooks.task_batch_score[self.name] = CandidateTerms(self._terms, self._is_plain_class)

    def _is_plain_class(self, class_: TaskClass) -> bool | None:
        if self._nodes.terms[class_]:
            return False
        if self._pods is not None and not self._pods.has_no_effect_on(class_):
            return None
        return True if self._spread is None or self._spread.has_no_effect_on(class_) else None

    def _terms(self, task: Task) -> tuple[CandidateTerm, ...]:
        terms: tuple[CandidateTerm, ...] = self._nodes.terms[task.class_]
        if self._pods is not None and self._pods.concerns(task):
            scores = partial(self._pods.score, task)
            terms = (*terms, FollowingTerm(scores, self._weights.pod_affinity))
        spread = self._spread.term(task) if self._spread is not None else None
        return terms if spread is None else (*terms, spread)

    def _amount_score(self, class_: TaskClass) -> AmountScore:
        """The term for idle, used and balanced resources; GPUs count only if the class requests some."""
        request, gpus = class_.request, max(class_.request.get(GPU), 0)
        milli_cpu, memory = class_.spec.scored_amounts()
        return AmountScore(
            float(self._weights.least),
            float(self._weights.most),
            float(self._weights.balanced),
            float(milli_cpu),
            float(memory),
            float(request.milli_cpu),
            float(request.memory),
            GPU if gpus else "",
            float(gpus),
        )
