"""What the Job controller observes of one Job."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.controllers.bus import Command
from pumice.controllers.job.types import Eviction, Job, JobSpec, Pod
from pumice.controllers.podgroup.types import PodGroup
from pumice.controllers.resources import JOBS
from pumice.controllers.runtime.acts import Emit, Reference


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that the reconcile function of Jobs depends on."""

    job: Job
    # The spec with defaults.
    spec: JobSpec
    pods: tuple[Pod, ...] = ()
    group: PodGroup | None = None
    commands: tuple[Command, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    # Whether the queue forwards jobs to other clusters; None: the queue does not exist.
    is_forwarded: bool | None = False
    # The state of a queue that takes no jobs; "": the queue takes jobs.
    closed_state: str = ""
    # Names of the job's PersistentVolumeClaims that exist.
    claims: frozenset[str] = frozenset()
    # Data of the ConfigMaps of the job's plugins, by name.
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # The resources that the gang needs to be admitted.
    min_resources: Mapping[str, str] = field(default_factory=dict)
    # Whether conditions of the PodGroup changed since the last reconcile.
    has_new_conditions: bool = False
    now_ms: int = 0
    # For how long the stored counters have been outdated, or no phase has been stored.
    outdated_ms: int = 0
    # How many jobs have outdated counters; for a job without a stored phase, how many such jobs exist.
    outdated_jobs: int = 0

    def event(self, reason: str, message: str, *, warning: bool = True) -> Emit:
        """An event about the job."""
        return Emit(Reference.of(JOBS, self.job.metadata), reason, message, warning=warning)
