"""Counts of equal and different decisions of two schedulers."""

from dataclasses import dataclass


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
