"""The watches of the Job controller, and what it looks at."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from pumice.controllers.job.counts import counters_differ
from pumice.controllers.job.defaults import effective
from pumice.controllers.job.delays import ChangeDelays
from pumice.controllers.job.groups import min_resources
from pumice.controllers.job.lifecycle import Eviction
from pumice.controllers.job.pods import group_name
from pumice.controllers.job.reconcile import Seen, reconcile
from pumice.controllers.job.types import (
    API_VERSION,
    JOB_NAME,
    KIND,
    Command,
    Job,
    JobSpec,
    Phase,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
)
from pumice.controllers.job.volumes import claim_names
from pumice.controllers.options import ControllerOptions
from pumice.controllers.orphaned_commands import Orphans
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
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.objects import Metadata, Watched
from pumice.controllers.runtime.watches import Change, Watch, by_owner

_LIVE: Final = frozenset({Phase.PENDING, Phase.RUNNING, Phase.RESTARTING})


class _ConfigMap(Watched):
    data: dict[str, str] | None = None


def _by_target(command: Command) -> Iterable[Hashable]:
    target = command.target
    if target is None or (target.api_version, target.kind) != (API_VERSION, KIND):
        return ()
    return ((command.metadata.namespace, target.name),)


def _by_claim(job: Job) -> Iterable[Hashable]:
    return {(job.metadata.namespace, name) for name in claim_names(job, job.spec)}


def _by_queue(job: Job) -> Iterable[Hashable]:
    return (job.spec.queue,)


WATCHED_JOBS: Final = Watch(JOBS, Job, indexes={"claim": _by_claim, "queue": _by_queue})


def _by_job(pod: Pod) -> Iterable[Hashable]:
    """Pods that a user gave the job as their owner are no tasks of it."""
    return by_owner(pod) if pod.task else ()


WATCHED_PODS: Final = Watch(PODS, Pod, label_selector=JOB_NAME, indexes={"owner": _by_job})
WATCHED_GROUPS: Final = Watch(POD_GROUP, PodGroup)
WATCHED_COMMANDS: Final = Watch(COMMANDS, Command, indexes={"target": _by_target})
WATCHED_QUEUES: Final = Watch(QUEUE, Queue)
WATCHED_CLAIMS: Final = Watch(CLAIMS, Watched, metadata_only=True)
WATCHED_CONFIG_MAPS: Final = Watch(
    CONFIG_MAPS, _ConfigMap, label_selector=JOB_NAME, indexes={"owner": by_owner}
)
WATCHED_CLASSES: Final = Watch(PRIORITY_CLASSES, PriorityClass)


class JobController:
    """Creates the pods of Jobs. It remembers evictions, which leave no trace in the cluster."""

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
        self._evictions: dict[Key, dict[str, Eviction]] = {}
        # Since when the stored counters of jobs are out of date, and jobs have no stored phase.
        self._outdated_ms: dict[Key, int] = {}
        self._new_ms: dict[Key, int] = {}
        # Jobs whose PodGroup changed since the last look.
        self._new_conditions: set[Key] = set()
        # Specs with defaults, by uid and generation.
        self._specs: dict[str, tuple[int, JobSpec]] = {}
        # What the gang of each spec needs, by uid; values of PriorityClasses, None when they changed.
        self._least: dict[str, tuple[JobSpec, Mapping[str, str]]] = {}
        self._priorities: dict[str, int] | None = None
        self._delays = ChangeDelays()

    # Keys.

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata: Metadata = change.seen.metadata
        match change.watch.resource.full_name:
            case JOBS.full_name:
                self._see_job(change)
                return (metadata.key,)
            case COMMANDS.full_name:
                return list(_by_target(change.seen))  # type: ignore[arg-type]
            case QUEUE.full_name:
                return self._keys_of_queue(change, caches)
            case CLAIMS.full_name:
                if change.old is not None and change.new is not None:
                    return ()
                jobs = caches[WATCHED_JOBS].by("claim", metadata.key)
                return [job.metadata.key for job in jobs]
            case PRIORITY_CLASSES.full_name:
                self._priorities = None
                self._least.clear()
                return ()
        return self._keys_of_owned(change, caches)

    def delay_seconds(self, change: Change[Any]) -> float:
        return self._delays.seconds(change)

    def _keys_of_queue(self, change: Change[Queue], caches: Caches) -> Iterable[Key]:
        old, new = change.old, change.new
        if (
            old is not None
            and new is not None
            and (_forwards(old), old.is_shut) == (_forwards(new), new.is_shut)
        ):
            return ()
        jobs = caches[WATCHED_JOBS].by("queue", change.seen.metadata.name)
        return [job.metadata.key for job in jobs]

    def _keys_of_owned(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata: Metadata = change.seen.metadata
        owner = metadata.controller()
        if owner is None or (owner.api_version, owner.kind) != (API_VERSION, KIND):
            return ()
        key = (metadata.namespace, owner.name)
        if change.watch == WATCHED_PODS:
            self._see_pod(key, change, caches)
            if not _concerns_job(change):
                return ()
        elif change.watch == WATCHED_GROUPS and _has_new_conditions(change):
            self._new_conditions.add(key)
        return (key,)

    def _see_job(self, change: Change[Job]) -> None:
        key = change.seen.metadata.key
        if change.new is None:
            for held in (self._evictions, self._outdated_ms, self._new_ms):
                held.pop(key, None)
            self._new_conditions.discard(key)
            for by_uid in (self._specs, self._least):
                by_uid.pop(change.seen.metadata.uid, None)
            self._delays.forget(key)
            return
        if change.new.status.phase not in (Phase.PENDING, Phase.RUNNING):
            # A restart or an end answers all evictions.
            self._evictions.pop(key, None)

    def _see_pod(self, key: Key, change: Change[Pod], caches: Caches) -> None:
        pod, name = change.seen, change.seen.metadata.name
        if change.new is not None:
            if change.new.status.phase != "Pending":
                self._evictions.get(key, {}).pop(name, None)
            return
        job = caches[WATCHED_JOBS].get(*key)
        if job is None or not self._is_eviction(job, pod):
            return
        self._evictions.setdefault(key, {})[name] = Eviction(
            pod.task, name, pod.metadata.uid, pod.version, pod.partition, 0
        )

    def _is_eviction(self, job: Job, pod: Pod) -> bool:
        """Whether somebody else deleted a pod that the job wants."""
        owner = pod.metadata.controller()
        if owner is None or owner.uid != job.metadata.uid or job.metadata.is_terminating:
            return False
        if pod.is_marked or pod.version < job.status.version or job.status.phase not in _LIVE:
            return False
        replicas = {task.name: task.replicas for task in self._spec_of(job).tasks or ()}
        return 0 <= pod.index < replicas.get(pod.task, 0)

    # Looking.

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | Orphans | None:
        job = caches[WATCHED_JOBS].get(*key)
        commands = tuple(
            sorted(
                caches[WATCHED_COMMANDS].by("target", key),
                key=lambda one: (one.metadata.creation_timestamp, one.metadata.name),
            )
        )
        has_new_conditions = key in self._new_conditions
        self._new_conditions.discard(key)
        if job is None:
            return Orphans(commands, now_ms) if commands else None
        spec = self._spec_of(job)
        uid = job.metadata.uid
        namespace = job.metadata.namespace
        queue = caches[WATCHED_QUEUES].get("", spec.queue)
        maps = caches[WATCHED_CONFIG_MAPS].by("owner", uid) if spec.plugins else ()
        claims = claim_names(job, spec)
        pods = tuple(caches[WATCHED_PODS].by("owner", uid))
        self._delays.looked(key, job, spec, pods)
        return Seen(
            job,
            spec,
            pods,
            self._group_of(job, caches),
            commands,
            tuple(self._evictions_of(key, now_ms)),
            None if queue is None else _forwards(queue),
            frozenset(name for name in claims if caches[WATCHED_CLAIMS].get(namespace, name)),
            {one.metadata.name: one.data or {} for one in maps},
            self._priorities_in(caches),
            has_new_conditions,
            now_ms,
            self._outdated_for_ms(key, job, pods, now_ms),
            queue.status.state if queue is not None and queue.is_shut else "",
            len(self._outdated_ms if job.status.state.phase else self._new_ms),
            self._least_of(uid, spec, caches),
        )

    def _priorities_in(self, caches: Caches) -> Mapping[str, int]:
        if self._priorities is None:
            classes = caches[WATCHED_CLASSES]
            self._priorities = {one.metadata.name: one.value for one in classes}
        return self._priorities

    def _least_of(self, uid: str, spec: JobSpec, caches: Caches) -> Mapping[str, str]:
        """What a gang needs; it is added up again when the spec or a PriorityClass changes."""
        held = self._least.get(uid)
        if held is None or held[0] is not spec:
            held = self._least[uid] = (spec, min_resources(spec, self._priorities_in(caches)))
        return held[1]

    def _outdated_for_ms(self, key: Key, job: Job, pods: Sequence[Pod], now_ms: int) -> int:
        """How long the stored counters have been out of date, or no phase is stored; 0: all is stored."""
        if not job.status.state.phase:
            return now_ms - self._new_ms.setdefault(key, now_ms)
        self._new_ms.pop(key, None)
        if not counters_differ(job.status, pods):
            self._outdated_ms.pop(key, None)
            return 0
        return now_ms - self._outdated_ms.setdefault(key, now_ms)

    def _evictions_of(self, key: Key, now_ms: int) -> list[Eviction]:
        held = self._evictions.get(key)
        if not held:
            return []
        for name, one in held.items():
            if not one.at_ms:
                held[name] = Eviction(
                    one.task, one.pod, one.uid, one.version, one.partition, now_ms
                )
        return [held[name] for name in sorted(held)]

    def _group_of(self, job: Job, caches: Caches) -> PodGroup | None:
        groups = caches[WATCHED_GROUPS]
        for name in (group_name(job), job.metadata.name):
            found = groups.get(job.metadata.namespace, name)
            if found is not None:
                owner = found.metadata.controller()
                if owner is not None and owner.uid == job.metadata.uid:
                    return found
        return None

    def _spec_of(self, job: Job) -> JobSpec:
        """The spec with defaults; it is made again when the job changes."""
        metadata = job.metadata
        held = self._specs.get(metadata.uid)
        if held is None or not metadata.generation or held[0] != metadata.generation:
            held = (metadata.generation, effective(job.spec, self._scheduler_name))
            self._specs[metadata.uid] = held
        return held[1]

    def reconcile(self, seen: Seen | Orphans) -> Plan:
        return reconcile(seen)


def _has_new_conditions(change: Change[PodGroup]) -> bool:
    """Whether conditions changed. What a process finds when it starts was told before."""
    old, new = change.old, change.new
    return old is not None and new is not None and old.status.conditions != new.status.conditions


def _concerns_job(change: Change[Pod]) -> bool:
    """Whether a job looks at what changed of a pod. It does not look at the node, for example."""
    old, new = change.old, change.new
    if old is None or new is None or new.is_finished:
        return True
    was, now = old.status, new.status
    return (
        was.phase != now.phase
        or was.container_statuses != now.container_statuses
        or was.init_container_statuses != now.init_container_statuses
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.owner_references != new.metadata.owner_references
    )


def _forwards(queue: Queue) -> bool:
    return bool(queue.spec.extend_clusters)
