"""The figures of a simulated cluster."""

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class SimulationReport:
    """Counts since the start of the cluster."""

    jobs: int = 0
    jobs_done: int = 0
    # Jobs that had their minimum number of pods placed at some time.
    gangs_whole: int = 0
    # Jobs that have some pods placed now, but fewer than their minimum.
    gangs_short: int = 0
    jobs_waiting: int = 0
    pods_bound: int = 0
    pods_evicted: int = 0
    node_failures: int = 0
    # Binds of a pod that was on another node; such a bind must never take effect.
    conflicting_binds: int = 0
    # Binds that left a node with more requests than it has resources.
    overcommits: int = 0
    simulated_seconds: float = 0.0
    calls: dict[str, int] = field(default_factory=dict)

    def count_call(self, verb: str) -> None:
        self.calls[verb] = self.calls.get(verb, 0) + 1

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
