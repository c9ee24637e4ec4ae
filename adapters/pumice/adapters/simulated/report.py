"""What became of a simulated cluster, in numbers."""

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class SimulationReport:
    """Counts that a demo shows and tests assert on."""

    jobs: int = 0
    jobs_done: int = 0
    # Jobs of which, at some time, as many pods were placed as must start together.
    gangs_whole: int = 0
    # Jobs that hold some places now, but fewer than they need.
    gangs_short: int = 0
    jobs_waiting: int = 0
    pods_bound: int = 0
    pods_evicted: int = 0
    node_deaths: int = 0
    # Binds of a pod that was on another node: nobody may ever see one take effect.
    conflicting_binds: int = 0
    # Binds to a node that had no room left.
    overcommits: int = 0
    simulated_seconds: float = 0.0
    calls: dict[str, int] = field(default_factory=dict)

    def count_call(self, verb: str) -> None:
        self.calls[verb] = self.calls.get(verb, 0) + 1

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
