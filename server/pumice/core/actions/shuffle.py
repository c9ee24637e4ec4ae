"""shuffle: evicts the tasks that plugins select, so that they are placed again."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session


class ShuffleAction:
    """Evicts the running tasks that plugins select; gangs are not protected."""

    name: ClassVar[str] = "shuffle"

    def execute(self, session: Session) -> None:
        running = [
            task for job in session.jobs.values() for task in job.index.in_order(TaskStatus.RUNNING)
        ]
        for victim in session.votes.victim_tasks(running):
            statement = session.statement()
            statement.evict(victim, self.name)
            # The eviction is for no job, so that the adapter applies it by itself.
            statement.commit("")
