"""The watches of the Job controller, and what it observes."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pumice.controllers.bus import Command, OrphanedCommands, by_target, delete_orphans
from pumice.controllers.job.defaults import with_defaults
from pumice.controllers.job.delays import ChangeDelays
from pumice.controllers.job.groups import min_resources
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.pods import group_name
from pumice.controllers.job.reconcile import reconcile
from pumice.controllers.job.statuses import counters_differ
from pumice.controllers.job.types import (
    JOB_NAME,
    Eviction,
    Job,
    JobSpec,
    Phase,
    Pod,
    PriorityClass,
)
from pumice.controllers.job.volumes import claim_names
from pumice.controllers.options import ControllerOptions
from pumice.controllers.podgroup.types import PodGroup
from pumice.controllers.queue.types import Queue
from pumice.controllers.resources import (
    CLAIMS,
    COMMANDS,
    CONFIG_MAPS,
    JOBS,
    POD_GROUP,
    PODS,
    PRIORITY_CLASSES,
    QUEUE,
)
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import ApiObject, ConfigMap, Key
from pumice.controllers.runtime.watches import Change, Watch, by_owner

_LIVE: Final = frozenset({Phase.PENDING, Phase.RUNNING, Phase.RESTARTING})


def _by_claim(job: Job) -> Iterable[Hashable]:
    return {(job.metadata.namespace, name) for name in claim_names(job, job.spec)}


def _by_queue(job: Job) -> Iterable[Hashable]:
    return (job.spec.queue,)


WATCHED_JOBS: Final = Watch(JOBS, Job, indexes={"claim": _by_claim, "queue": _by_queue})


def _by_job(pod: Pod) -> Iterable[Hashable]:
    """The owner of a pod that belongs to a task; users may give other pods the same owner."""
    return by_owner(pod) if pod.task else ()


WATCHED_PODS: Final = Watch(PODS, Pod, label_selector=JOB_NAME, indexes={"owner": _by_job})
WATCHED_GROUPS: Final = Watch(POD_GROUP, PodGroup)
WATCHED_COMMANDS: Final = Watch(COMMANDS, Command, indexes={"job": by_target(JOBS)})
WATCHED_QUEUES: Final = Watch(QUEUE, Queue)
WATCHED_CLAIMS: Final = Watch(CLAIMS, ApiObject, metadata_only=True)
WATCHED_CONFIG_MAPS: Final = Watch(
    CONFIG_MAPS, ConfigMap, label_selector=JOB_NAME, indexes={"owner": by_owner}
)
WATCHED_CLASSES: Final = Watch(PRIORITY_CLASSES, PriorityClass)


class JobController(Controller[Observed | OrphanedCommands]):
    """Creates the pods of Jobs. It remembers evictions, which the cluster does not store."""

    name = "job-controller"
    watches: Sequence[Watch[Any]] = (
        WATCHED_JOBS,
        WATCHED_PODS,
        WATCHED_GROUPS,
        WATCHED_COMMANDS,
        WATCHED_QUEUES,
        WATCHED_CLAIMS,
        WATCHED_CONFIG_MAPS,
        WATCHED_CLASSES,
    )

    def __init__(self, options: ControllerOptions) -> None:
        self._scheduler_name = options.scheduler_names[0]
        # Evictions of each job, by the name of the pod.
        self._evictions: dict[Key, dict[str, Eviction]] = {}
        # Since when the stored counters of jobs have been outdated, and jobs have had no stored phase.
        self._outdated_ms: dict[Key, int] = {}
        self._new_ms: dict[Key, int] = {}
        # Jobs whose PodGroup has new conditions since the last `observe`.
        self._new_conditions: set[Key] = set()
        # Generations of jobs, their specs with defaults, and the minimum resources, by the uid of the job.
        self._specs: dict[str, tuple[int, JobSpec, Mapping[str, str]]] = {}
        # Values of PriorityClasses; None: they changed.
        self._priorities: dict[str, int] | None = None
        self._delays = ChangeDelays()

    # Keys.

    def track(self, change: Change[Any], caches: Caches) -> None:
        match change.watch.resource.full_name:
            case JOBS.full_name:
                self._track_job(change)
            case PODS.full_name:
                self._track_pod(change, caches)
            case POD_GROUP.full_name:
                self._track_group(change, caches)
            case PRIORITY_CLASSES.full_name:
                self._priorities = None
                self._specs.clear()

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        match change.watch.resource.full_name:
            case JOBS.full_name:
                return (change.latest.metadata.key,)
            case COMMANDS.full_name:
                return by_target(JOBS)(change.latest)
            case QUEUE.full_name:
                return self._keys_of_queue(change, caches)
            case CLAIMS.full_name:
                is_update = change.old is not None and change.new is not None
                claim = change.latest.metadata.key
                jobs = () if is_update else caches[WATCHED_JOBS].by("claim", claim)
                return [job.metadata.key for job in jobs]
            case PRIORITY_CLASSES.full_name:
                return ()
            case PODS.full_name if not _concerns_job(change):
                return ()
        key: Key | None = change.latest.metadata.controller_key(JOBS)
        return () if key is None else (key,)

    def delay_seconds(self, change: Change[Any]) -> float:
        return self._delays.seconds(change)

    def _keys_of_queue(self, change: Change[Queue], caches: Caches) -> Iterable[Key]:
        old, new = change.old, change.new
        if (
            old is not None
            and new is not None
            and (old.forwards_jobs, old.is_closed) == (new.forwards_jobs, new.is_closed)
        ):
            return ()
        jobs = caches[WATCHED_JOBS].by("queue", change.latest.metadata.name)
        return [job.metadata.key for job in jobs]

    def _track_job(self, change: Change[Job]) -> None:
        key = change.latest.metadata.key
        if change.new is None:
            for by_key in (self._evictions, self._outdated_ms, self._new_ms):
                by_key.pop(key, None)
            self._new_conditions.discard(key)
            self._specs.pop(change.latest.metadata.uid, None)
            self._delays.forget(key)
            return
        if change.new.status.phase not in (Phase.PENDING, Phase.RUNNING):
            # The restart or the end of a job handles all its evictions.
            self._evictions.pop(key, None)

    def _track_group(self, change: Change[PodGroup], caches: Caches) -> None:
        key: Key | None = change.latest.metadata.controller_key(JOBS)
        if key is not None and _has_new_conditions(change) and caches[WATCHED_JOBS].get(*key):
            self._new_conditions.add(key)

    def _track_pod(self, change: Change[Pod], caches: Caches) -> None:
        key: Key | None = change.latest.metadata.controller_key(JOBS)
        if key is None:
            return
        pod, name = change.latest, change.latest.metadata.name
        if change.new is not None:
            if change.new.status.phase != "Pending":
                self._evictions.get(key, {}).pop(name, None)
            return
        job = caches[WATCHED_JOBS].get(*key)
        if job is None or not self._is_eviction(job, pod, caches):
            return
        self._evictions.setdefault(key, {})[name] = Eviction(
            pod.task, name, pod.version, pod.partition, 0
        )

    def _is_eviction(self, job: Job, pod: Pod, caches: Caches) -> bool:
        """Whether another client deleted a pod that the job needs."""
        owner = pod.metadata.controller()
        if owner is None or owner.uid != job.metadata.uid or job.metadata.is_terminating:
            return False
        if pod.is_marked or pod.version < job.status.version or job.status.phase not in _LIVE:
            return False
        spec, _ = self._spec_of(job, caches)
        replicas = {task.name: task.replicas for task in spec.tasks or ()}
        return 0 <= pod.index < replicas.get(pod.task, 0)

    # What is observed.

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | OrphanedCommands | None:
        job = caches[WATCHED_JOBS].get(*key)
        commands = tuple(
            sorted(
                caches[WATCHED_COMMANDS].by("job", key), key=lambda command: command.creation_order
            )
        )
        has_new_conditions = key in self._new_conditions
        self._new_conditions.discard(key)
        if job is None:
            return OrphanedCommands(commands, now_ms) if commands else None
        spec, minimum = self._spec_of(job, caches)
        uid = job.metadata.uid
        namespace = job.metadata.namespace
        queue = caches[WATCHED_QUEUES].get("", spec.queue)
        maps = caches[WATCHED_CONFIG_MAPS].by("owner", uid) if spec.plugins else ()
        claims = claim_names(job, spec)
        pods = tuple(caches[WATCHED_PODS].by("owner", uid))
        self._delays.observe(key, job, spec, pods)
        return Observed(
            job,
            spec,
            pods,
            group=self._group_of(job, caches),
            commands=commands,
            evictions=tuple(self._evictions_of(key, now_ms)),
            is_forwarded=None if queue is None else queue.forwards_jobs,
            closed_state=queue.status.state if queue is not None and queue.is_closed else "",
            claims=frozenset(
                name for name in claims if caches[WATCHED_CLAIMS].get(namespace, name)
            ),
            config_maps={one.metadata.name: one.data or {} for one in maps},
            min_resources=minimum,
            has_new_conditions=has_new_conditions,
            now_ms=now_ms,
            outdated_ms=self._outdated_for_ms(key, job, pods, now_ms),
            outdated_jobs=len(self._outdated_ms if job.status.state.phase else self._new_ms),
        )

    def _outdated_for_ms(self, key: Key, job: Job, pods: Sequence[Pod], now_ms: int) -> int:
        """How long the stored counters have been outdated, or no phase has been stored; 0: all is."""
        is_new = not job.status.state.phase
        since, other = self._outdated_ms, self._new_ms
        if is_new:
            since, other = other, since
        other.pop(key, None)
        if job.metadata.is_terminating or not (is_new or counters_differ(job.status, pods)):
            since.pop(key, None)
            return 0
        # A clock that is set back must not prolong the wait.
        since[key] = min(since.get(key, now_ms), now_ms)
        return now_ms - since[key]

    def _evictions_of(self, key: Key, now_ms: int) -> list[Eviction]:
        evictions = self._evictions.get(key, {})
        for name, one in evictions.items():
            if not one.at_ms:
                evictions[name] = replace(one, at_ms=now_ms)
        return [evictions[name] for name in sorted(evictions)]

    def _group_of(self, job: Job, caches: Caches) -> PodGroup | None:
        groups = caches[WATCHED_GROUPS]
        for name in (group_name(job), job.metadata.name):
            found = groups.get(job.metadata.namespace, name)
            if found is not None:
                owner = found.metadata.controller()
                if owner is not None and owner.uid == job.metadata.uid:
                    return found
        return None

    def _spec_of(self, job: Job, caches: Caches) -> tuple[JobSpec, Mapping[str, str]]:
        """The spec with defaults, and the minimum resources of its gang.

        Both are computed again for a new generation of the job, and after a change of a PriorityClass.
        """
        metadata = job.metadata
        known = self._specs.get(metadata.uid)
        if known is None or not metadata.generation or known[0] != metadata.generation:
            if self._priorities is None:
                classes = caches[WATCHED_CLASSES]
                self._priorities = {one.metadata.name: one.value for one in classes}
            spec = with_defaults(job.spec, self._scheduler_name)
            known = (metadata.generation, spec, min_resources(spec, self._priorities))
            self._specs[metadata.uid] = known
        return known[1], known[2]

    def reconcile(self, observed: Observed | OrphanedCommands) -> Plan:
        if isinstance(observed, OrphanedCommands):
            return delete_orphans(observed)
        return reconcile(observed)


def _has_new_conditions(change: Change[PodGroup]) -> bool:
    """Whether conditions changed. Events about those that exist at the start were written before."""
    old, new = change.old, change.new
    return old is not None and new is not None and old.status.conditions != new.status.conditions


def _concerns_job(change: Change[Pod]) -> bool:
    """Whether the reconcile function reads what changed. It does not read the node, for example."""
    old, new = change.old, change.new
    if old is None or new is None or new.is_finished:
        return True
    return (
        old.status.phase != new.status.phase
        or old.status.container_statuses != new.status.container_statuses
        or old.status.init_container_statuses != new.status.init_container_statuses
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.owner_references != new.metadata.owner_references
    )
