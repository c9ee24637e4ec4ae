"""Differences between the decisions of two schedulers."""

from dataclasses import dataclass
from enum import Enum


class DifferenceKind(Enum):
    """The kind of a difference."""

    NODE = "node"
    POD_ONLY_THEIRS = "pod only theirs"
    POD_ONLY_OURS = "pod only ours"
    JOB_EARLIER = "job earlier"
    JOB_LATER = "job later"
    JOB_ONLY_OURS = "job only ours"
    EVICTION_ONLY_THEIRS = "eviction only theirs"
    EVICTION_ONLY_OURS = "eviction only ours"


@dataclass(frozen=True, slots=True)
class Difference:
    """A pod or job that the two schedulers treat differently."""

    what: DifferenceKind
    # `namespace/name` of the job, and of the pod if the difference concerns one.
    job: str
    pod: str = ""
    # The chosen nodes; empty: none.
    theirs: str = ""
    ours: str = ""
    # Seconds by which pumice would have been earlier.
    seconds: float = 0.0
    # The reason of an eviction and its beneficiary.
    reason: str = ""

    def shown(self, them: str) -> str:
        """The difference in one line of text."""
        match self.what:
            case DifferenceKind.NODE:
                return f"pod {self.pod}: {them} chose {self.theirs}, pumice {self.ours}"
            case DifferenceKind.POD_ONLY_THEIRS:
                return f"pod {self.pod}: {them} put it on {self.theirs}, pumice lets it wait"
            case DifferenceKind.POD_ONLY_OURS:
                return f"pod {self.pod}: pumice would put it on {self.ours}, {them} lets it wait"
            case DifferenceKind.JOB_EARLIER:
                sooner = f"pumice would have {self.seconds:.1f} s earlier"
                return f"job {self.job}: {them} started it, {sooner}"
            case DifferenceKind.JOB_LATER:
                return f"job {self.job}: {them} started it, pumice lets it wait"
            case DifferenceKind.JOB_ONLY_OURS:
                return f"job {self.job}: pumice would start it now, {them} lets it wait"
            case DifferenceKind.EVICTION_ONLY_THEIRS:
                return f"pod {self.pod}: {them} evicted it from {self.theirs}, pumice does not"
            case DifferenceKind.EVICTION_ONLY_OURS:
                why = f" ({self.reason})" if self.reason else ""
                return (
                    f"pod {self.pod}: pumice would evict it from {self.ours}{why}, {them} does not"
                )
