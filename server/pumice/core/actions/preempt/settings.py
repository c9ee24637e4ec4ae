"""The preempt action's arguments."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.core.configuration import Arguments

_WHOLE = 100


@dataclass(frozen=True, slots=True)
class PreemptSettings:
    """How preemption searches."""

    remembers_errors: bool = True
    topology_aware: bool = False
    candidate_percentage: int = 10
    fewest_candidates: int = 1
    most_candidates: int = 100

    @classmethod
    def of(cls, arguments: Arguments) -> PreemptSettings:
        return cls(
            arguments.boolean("predicateErrorCacheEnable", default=True),
            arguments.boolean("enableTopologyAwarePreemption", default=False),
            arguments.integer("minCandidateNodesPercentage", 10),
            arguments.integer("minCandidateNodesAbsolute", 1),
            arguments.integer("maxCandidateNodesAbsolute", 100),
        )

    def candidates_among(self, nodes: int) -> int:
        """How many feasible nodes are enough to choose from."""
        part = nodes * self.candidate_percentage // _WHOLE
        return min(max(part, self.fewest_candidates), self.most_candidates, nodes)
