"""pdb: keeps evictions within PodDisruptionBudgets."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import PodDisruptionBudget
from pumice.core.model.memo import Memo
from pumice.core.model.selectors import LabelSelector
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import VictimRule
from pumice.core.session.session import Session


class PdbPlugin:
    """Removes candidates for eviction whose PodDisruptionBudget is exhausted."""

    name: ClassVar[str] = "pdb"

    def __init__(self, options: PluginOptions) -> None:
        self._by_namespace: dict[str, list[tuple[LabelSelector, PodDisruptionBudget]]] = {}
        # The budgets that the eviction of a task counts against, by task.
        self._budgets = Memo(self._find_budgets)

    def open(self, session: Session) -> None:
        for budget in session.cache.budgets:
            selector = budget.selector
            # A budget without a selector, or with an empty one, selects no pod.
            if selector is not None and selector.requirements:
                self._by_namespace.setdefault(budget.namespace, []).append((selector, budget))
        rule = VictimRule(lambda _, candidates: (self._within_budgets(candidates), PERMIT))
        session.hooks.preemptable[self.name] = rule
        session.hooks.reclaimable[self.name] = rule
        # As in Volcano, shuffle evicts the victims of every plugin, so that this hook adds victims.
        session.hooks.victim_tasks[self.name] = self._within_budgets

    def _within_budgets(self, tasks: list[Task]) -> list[Task]:
        """The tasks that can be evicted in this order; every call starts with the whole budgets."""
        left: dict[str, int] = {}
        allowed = []
        for task in tasks:
            if not task.pod.labels:
                # Volcano never evicts a pod without labels while this plugin is on.
                continue
            fits = True
            for budget in self._budgets[task]:
                # As in Volcano, a task that exceeds another budget counts against this one too.
                left[budget.uid] = left.get(budget.uid, budget.disruptions_allowed) - 1
                fits = fits and left[budget.uid] >= 0
            if fits:
                allowed.append(task)
        return allowed

    def _find_budgets(self, task: Task) -> list[PodDisruptionBudget]:
        pod = task.pod
        return [
            budget
            for selector, budget in self._by_namespace.get(pod.namespace, ())
            # The API server is already evicting disrupted pods.
            if selector.matches(pod.labels) and pod.name not in budget.disrupted_pods
        ]
