"""What the last session found about a job; valid until the job changes."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.configuration import Configuration
from pumice.core.model.fit import FitErrors
from pumice.core.model.reasons import Reason


class TasksToPlace:
    """The tasks of a job that need a node, in order, and why none was placed; for one version of the job."""

    __slots__ = (
        "configuration",
        "errors",
        "is_uniform",
        "needs_all",
        "reasons",
        "tasks",
        "version",
    )

    def __init__(
        self, version: int, configuration: Configuration, tasks: list[Task], *, needs_all: bool
    ) -> None:
        self.version = version
        self.configuration = configuration
        # Those that a node has to be found for, in the order of trying.
        self.tasks = tasks
        # The job cannot start without any one of its tasks, wherever they are.
        self.needs_all = needs_all
        # These are all its tasks, and each is like the others.
        self.is_uniform = False
        # Why no node takes the first of them, and the reasons that were given for the job.
        self.errors: FitErrors | None = None
        self.reasons: tuple[Reason, ...] = ()
