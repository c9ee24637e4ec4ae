"""Settings that controllers share."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Settings of all controllers."""

    # Schedulers whose pods and jobs are managed; the first is the default of jobs that name none.
    scheduler_names: tuple[str, ...] = ("volcano",)
    # Whether PodGroups of pods take annotations of the pods' owners.
    inherits_annotations: bool = True
