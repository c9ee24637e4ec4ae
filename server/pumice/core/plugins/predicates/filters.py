"""Base classes of the filters that are evaluated for each task that they concern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Refusal


class TaskFilter(ABC):
    """A filter of Kubernetes, with the methods of PreFilter, Filter, Reserve and Unreserve."""

    # Kubernetes' name, for filters that can refuse a task on all nodes.
    name: ClassVar[str] = ""

    def why_not_anywhere(self, task: Task) -> str | None:
        """Prepares the filter for a task; a text says why no node is feasible."""
        return None

    @abstractmethod
    def refusals(self, task: Task) -> list[Refusal]:
        """The nodes that are not feasible for a task."""

    def reserve(self, task: Task, row: int) -> str | None:
        """Reserves what the task needs on a node; a text says what is no longer available."""
        return None

    def why_not_pipelined(self, task: Task) -> str | None:
        """Why the task cannot be pipelined; None: it can."""
        return None

    def unreserve(self, task: Task) -> None:
        """Ends the reservations of the task."""
        return None


class CountingFilter(TaskFilter):
    """A filter that counts pods.

    Kubernetes counts pods once, before it filters nodes, so that evictions for a task do not change
    the result for that task.
    """

    def __init__(self) -> None:
        # By uid of a task: the result of its last preparation.
        self._prepared: dict[str, list[Refusal]] = {}

    def why_not_anywhere(self, task: Task) -> str | None:
        self._prepared.pop(task.uid, None)
        if self.concerns(task):
            self._prepared[task.uid] = self.evaluate(task)
        return None

    def refusals(self, task: Task) -> list[Refusal]:
        prepared = self._prepared.get(task.uid)
        if prepared is not None:
            return prepared
        return self.evaluate(task) if self.concerns(task) else []

    def concerns(self, task: Task) -> bool:
        """Whether the filter concerns a task; it is known to concern some tasks of the class."""
        return True

    @abstractmethod
    def evaluate(self, task: Task) -> list[Refusal]:
        """The nodes that are not feasible with the pods that are on nodes now."""
