"""The watches of the CronJob controller, and what it observes."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pumice.controllers.cronjob.reconcile import Observed, reconcile
from pumice.controllers.cronjob.types import CronJob
from pumice.controllers.job.types import Job
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CRON_JOBS, JOBS
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import Key
from pumice.controllers.runtime.watches import Change, Watch, by_owner


def _by_cron_job(job: Job) -> Iterable[Key]:
    """The CronJob whose Jobs have such names: its name, and a number."""
    name, _, number = job.metadata.name.rpartition("-")
    return ((job.metadata.namespace, name),) if number.isdecimal() else ()


WATCHED_CRON_JOBS: Final = Watch(CRON_JOBS, CronJob)
WATCHED_JOBS: Final = Watch(JOBS, Job, indexes={"owner": by_owner, "cron job": _by_cron_job})


class CronJobController(Controller[Observed]):
    """Creates Jobs at the times of schedules."""

    name = "cronjob-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_CRON_JOBS, WATCHED_JOBS)

    def __init__(self, options: ControllerOptions) -> None:
        # When schedules were changed, until the annotation has the time; 0: since the last `observe`.
        self._changed_ms: dict[Key, int] = {}

    def track(self, change: Change[Any], caches: Caches) -> None:
        if change.watch == WATCHED_CRON_JOBS:
            self._track_schedule(change)

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.latest.metadata
        if change.watch == WATCHED_CRON_JOBS:
            return (metadata.key,)
        owner = metadata.controller_key(CRON_JOBS)
        return (owner,) if owner is not None else ()

    def _track_schedule(self, change: Change[CronJob]) -> None:
        old, new, key = change.old, change.new, change.latest.metadata.key
        if old is None or new is None:
            self._changed_ms.pop(key, None)
        elif old.schedule != new.schedule:
            self._changed_ms[key] = 0

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | None:
        cron = caches[WATCHED_CRON_JOBS].get(*key)
        if cron is None:
            return None
        jobs = caches[WATCHED_JOBS]
        own = jobs.by("owner", cron.metadata.uid)
        names = {job.metadata.name for job in own}
        foreign = frozenset(job.metadata.name for job in jobs.by("cron job", key)) - names
        return Observed(cron, tuple(own), now_ms, foreign, self._schedule_since_ms(cron, now_ms))

    def _schedule_since_ms(self, cron: CronJob, now_ms: int) -> int:
        """When the schedule was last changed; 0: no change is known."""
        key, stored = cron.metadata.key, cron.stored_change
        if stored is not None and stored.schedule != cron.schedule:
            # The schedule was changed while no controller ran.
            self._changed_ms.setdefault(key, 0)
        if self._changed_ms.get(key) == 0:
            self._changed_ms[key] = now_ms
        changed_ms = self._changed_ms.get(key, 0)
        if stored is not None and stored.schedule == cron.schedule:
            return max(changed_ms, stored.since_ms)
        return changed_ms

    def reconcile(self, observed: Observed) -> Plan:
        return reconcile(observed)
