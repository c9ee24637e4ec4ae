"""Differences between the decisions of two schedulers, and counts of them."""

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


@dataclass(slots=True)
class Tally:
    """Counts of pods, jobs and evictions since the comparison began."""

    # Pods that both started.
    pods_same_node: int = 0
    # Pods that both started, on equivalent nodes.
    pods_equivalent_node: int = 0
    pods_other_node: int = 0
    # Pods that only one of the two started.
    pods_only_theirs: int = 0
    pods_only_ours: int = 0
    # Pods without a comparison: no core was connected, or they were created with a node.
    pods_not_compared: int = 0
    jobs_together: int = 0
    # Jobs that pumice would have started earlier.
    jobs_earlier: int = 0
    # Jobs that they started and pumice would not have started yet.
    jobs_later: int = 0
    # Jobs that only pumice would have started.
    jobs_never: int = 0
    evictions_agreed: int = 0
    evictions_only_theirs: int = 0
    evictions_only_ours: int = 0

    @property
    def pods_compared(self) -> int:
        return self._pods_started + self.pods_only_theirs + self.pods_only_ours

    @property
    def _pods_started(self) -> int:
        return self.pods_same_node + self.pods_equivalent_node + self.pods_other_node

    @property
    def agreement_percent(self) -> float | None:
        """Share of equal decisions: same pod on the same or an equivalent node, same eviction.

        None: there was no decision.
        """
        evictions = self.evictions_only_theirs + self.evictions_only_ours + self.evictions_agreed
        equal = self.pods_same_node + self.pods_equivalent_node + self.evictions_agreed
        return _percent(equal, self.pods_compared + evictions)

    @property
    def start_agreement_percent(self) -> float | None:
        """Share of pods that both started, on any node."""
        return _percent(self._pods_started, self.pods_compared)


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
