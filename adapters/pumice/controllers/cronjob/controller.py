"""The watches of the CronJob controller, and what it looks at."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pumice.controllers.cronjob.changes import noted_change
from pumice.controllers.cronjob.reconcile import Seen, reconcile
from pumice.controllers.cronjob.types import KIND, CronJob
from pumice.controllers.job.types import Job
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CRON_JOBS, JOBS
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.watches import Change, Watch, by_owner


def _by_namespace(job: Job) -> Iterable[str]:
    return (job.metadata.namespace,)


WATCHED_CRON_JOBS: Final = Watch(CRON_JOBS, CronJob)
WATCHED_JOBS: Final = Watch(JOBS, Job, indexes={"owner": by_owner, "namespace": _by_namespace})


class CronJobController:
    """Creates Jobs at the times of schedules."""

    name = "cronjob-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_CRON_JOBS, WATCHED_JOBS)

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options
        # When the schedules of CronJobs were changed, until the annotation says so; 0: since the last look.
        self._changed_ms: dict[Key, int] = {}

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.seen.metadata
        if change.watch == WATCHED_CRON_JOBS:
            self._see(change)
            return (metadata.key,)
        owner = metadata.controller()
        if owner is None or owner.kind != KIND:
            return ()
        return ((metadata.namespace, owner.name),)

    def _see(self, change: Change[CronJob]) -> None:
        old, new, key = change.old, change.new, change.seen.metadata.key
        if old is None or new is None:
            self._changed_ms.pop(key, None)
        elif old.times != new.times:
            self._changed_ms[key] = 0

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | None:
        cron = caches[WATCHED_CRON_JOBS].get(*key)
        if cron is None:
            return None
        jobs = caches[WATCHED_JOBS]
        own = jobs.by("owner", cron.metadata.uid)
        names = {job.metadata.name for job in own}
        prefix = f"{cron.metadata.name}-"
        foreign = frozenset(
            job.metadata.name
            for job in jobs.by("namespace", key[0])
            if job.metadata.name.startswith(prefix) and job.metadata.name not in names
        )
        return Seen(cron, tuple(own), now_ms, foreign, self._changed(cron, now_ms))

    def _changed(self, cron: CronJob, now_ms: int) -> int:
        """When the schedule was changed; 0: not since the CronJob was made, as far as is known."""
        key, noted = cron.metadata.key, noted_change(cron)
        if noted is not None and noted.times != cron.times:
            # Changed while no controller ran.
            self._changed_ms.setdefault(key, 0)
        if self._changed_ms.get(key) == 0:
            self._changed_ms[key] = now_ms
        changed_ms = self._changed_ms.get(key, 0)
        if noted is not None and noted.times == cron.times:
            return max(changed_ms, noted.since_ms)
        return changed_ms

    def reconcile(self, seen: Seen) -> Plan:
        return reconcile(seen)
