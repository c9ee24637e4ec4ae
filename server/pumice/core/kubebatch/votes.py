"""How kube-batch combines the answers of plugins, where Volcano differs."""

from __future__ import annotations

from typing import Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.session.hooks import ABSTAIN
from pumice.core.session.votes import Votes


class KubeBatchVotes(Votes):
    """All plugins must agree that a job is pipelined, and on the victims."""

    def is_pipelined(self, job: Job) -> bool:
        return all(function(job) >= 0 for function in self._chains.flat("job_pipelined"))

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        return _agreed(self._chains.tiers("preemptable"), preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> list[Task]:
        return _agreed(self._chains.tiers("reclaimable"), reclaimer, candidates)


def _agreed(tiers: list[list[Any]], asker: Task, candidates: list[Task]) -> list[Task]:
    """The victims that all plugins name, up to the first tier after which there are any.

    The first answer starts the list. Every later answer only removes tasks from it, also in later
    tiers: if the first tier agrees on no victim, there is none.
    """
    agreed: list[Task] | None = None
    for tier in tiers:
        for function in tier:
            named, answer = function(asker, candidates)
            if answer == ABSTAIN:
                continue
            if agreed is None:
                agreed = list(named)
            else:
                uids = {task.uid for task in named}
                agreed = [task for task in agreed if task.uid in uids]
        if agreed:
            return agreed
    return []
