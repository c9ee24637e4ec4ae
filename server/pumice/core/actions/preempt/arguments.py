"""The preempt action's arguments."""

from __future__ import annotations

from pumice.core.configuration import Arguments, ArgumentType, boolean, ignored, integer
from pumice.core.session.evicting.candidates import REMEMBERS_ERRORS

_WHOLE = 100


class PreemptArguments(Arguments):
    """How preemption searches."""

    remembers_errors = REMEMBERS_ERRORS
    topology_aware = boolean(
        "enableTopologyAwarePreemption",
        "tries victims out node by node before it evicts",
        default=False,
    )
    workers = ignored(
        "topologyAwarePreemptWorkerNum", "nodes are tried one after the other", ArgumentType.INT
    )
    candidate_percentage = integer(
        "minCandidateNodesPercentage", 10, "at least this part of the nodes is tried for victims"
    )
    fewest_candidates = integer(
        "minCandidateNodesAbsolute", 1, "at least so many nodes are tried for victims"
    )
    most_candidates = integer(
        "maxCandidateNodesAbsolute", 100, "at most so many nodes are tried for victims"
    )

    def candidates_among(self, nodes: int) -> int:
        """How many feasible nodes are enough to choose from."""
        part = nodes * self.candidate_percentage // _WHOLE
        return min(max(part, self.fewest_candidates), self.most_candidates, nodes)
