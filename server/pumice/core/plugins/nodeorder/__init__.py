"""nodeorder: Kubernetes' own scores, weighted."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.plugins.nodeorder.images import ImageLocality
from pumice.core.plugins.nodeorder.interpod import InterPodPreferences, PodPreference
from pumice.core.plugins.nodeorder.preferences import NodePreferences
from pumice.core.plugins.nodeorder.spread import SpreadPreferences
from pumice.core.session.feasibility.amounts import AmountScore
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.hooks import Scores
from pumice.core.session.policies import CandidateTerms, ClassRule, PlainRule, RowTerms
from pumice.core.session.session import Session

GPU = "nvidia.com/gpu"
_LEAST = "leastrequested.weight"
_MOST = "mostrequested.weight"
_BALANCED = "balancedresource.weight"
_NODE_AFFINITY = "nodeaffinity.weight"
_POD_AFFINITY = "podaffinity.weight"
_TAINTS = "tainttoleration.weight"
_IMAGES = "imagelocality.weight"
_SPREAD = "podtopologyspread.weight"
_DEFAULT_WEIGHTS = {
    _LEAST: 1,
    _MOST: 0,
    _BALANCED: 1,
    _NODE_AFFINITY: 2,
    _POD_AFFINITY: 2,
    _TAINTS: 3,
    _IMAGES: 1,
    _SPREAD: 2,
}
_NOT_NEGATIVE = Limit(
    at_least=0, lenient=True, otherwise="below zero it avoids what it should prefer"
)


class NodeOrderPlugin:
    """Adds up scores of 0 to 100, each times its weight; whole numbers at every step.

    A weight of 0 switches a score off; below 0 it counts against a node.
    """

    name: ClassVar[str] = "nodeorder"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        dict.fromkeys(_DEFAULT_WEIGHTS, ArgumentType.INT),
        limits=dict.fromkeys(_DEFAULT_WEIGHTS, _NOT_NEGATIVE),
        defaults=_DEFAULT_WEIGHTS,
    )

    def __init__(self, options: PluginOptions) -> None:
        self._weight = {k: options.arguments.integer(k, v) for k, v in _DEFAULT_WEIGHTS.items()}

    def open(self, session: Session) -> None:
        weight, hooks = self._weight, session.hooks
        if weight[_LEAST] or weight[_MOST] or weight[_BALANCED]:
            amounts = AmountScores(weight[_LEAST], weight[_MOST], weight[_BALANCED])
            hooks.row_batch_score[self.name] = RowTerms(amounts.term)
        if weight[_IMAGES]:
            self._images = ImageLocality(session)
            hooks.class_score[self.name] = ClassRule(
                self._by_images, version_of=self._images.version
            )
        self._nodes = NodePreferences(session, weight[_NODE_AFFINITY], weight[_TAINTS])
        self._pods = InterPodPreferences(session) if weight[_POD_AFFINITY] else None
        self._spread = SpreadPreferences(session, weight[_SPREAD]) if weight[_SPREAD] else None
        hooks.task_batch_score[self.name] = CandidateTerms(self._terms)
        hooks.is_plain[self.name] = PlainRule(
            self._is_plain_class, lambda task: not self._terms(task)
        )

    def _by_images(self, class_: TaskClass, _facet: object) -> Scores:
        return self._weight[_IMAGES] * self._images.score(class_)

    def _is_plain_class(self, class_: TaskClass) -> bool | None:
        if self._nodes.terms(class_):
            return False
        if self._pods is not None and not self._pods.is_silent_about(class_):
            return None
        return True if self._spread is None or self._spread.is_silent_about(class_) else None

    def _terms(self, task: Task) -> tuple[CandidateTerm, ...]:
        terms: tuple[CandidateTerm, ...] = self._nodes.terms(task.class_)
        if self._pods is not None and self._pods.concerns(task):
            terms = (*terms, PodPreference(self._pods, self._weight[_POD_AFFINITY], task))
        spread = self._spread.term(task) if self._spread is not None else None
        return terms if spread is None else (*terms, spread)


class AmountScores:
    """Least, most and balanced allocation by their weights; cards count only if asked for."""

    def __init__(self, least: int, most: int, balanced: int) -> None:
        self._weights = (float(least), float(most), float(balanced))
        self._terms: dict[int, AmountScore] = {}

    def term(self, class_: TaskClass) -> AmountScore:
        known = self._terms.get(class_.number)
        if known is None:
            request, cards = class_.request, max(class_.request.get(GPU), 0)
            milli_cpu, memory = class_.spec.scored_amounts()
            known = self._terms[class_.number] = AmountScore(
                *self._weights,
                float(milli_cpu),
                float(memory),
                float(request.milli_cpu),
                float(request.memory),
                GPU if cards else "",
                float(cards),
            )
        return known
