"""The options of a simulated cluster and its faults."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Frequencies of faults: shares of calls, or intervals in simulated seconds; 0: never."""

    refused_binds: float = 0.0
    slow_binds: float = 0.0
    # The call takes effect, but its response is lost.
    lost_answers: float = 0.0
    throttled_calls: float = 0.0
    server_errors: float = 0.0
    # Average interval between failures of nodes, and between breaks of the stream.
    failing_nodes: float = 0.0
    broken_streams: float = 0.0

    @classmethod
    def parse(cls, words: Iterable[str]) -> "FaultRates":
        """Reads `all`, `lost-answers` or `lost-answers=0.2`. Raises ValueError."""
        rates = cls()
        for word in words:
            if word == "all":
                rates = ALL_FAULTS
                continue
            name, equals, amount = word.partition("=")
            field = name.replace("-", "_")
            if field not in FAULT_NAMES:
                known = ", ".join(["all", *(known.replace("_", "-") for known in FAULT_NAMES)])
                raise ValueError(f"unknown fault {name!r}; allowed: {known}")
            value = _amount(name, amount) if equals else getattr(ALL_FAULTS, field)
            rates = replace(rates, **{field: value})
        return rates


FAULT_NAMES = tuple(field.name for field in fields(FaultRates))
_INTERVALS = ("failing_nodes", "broken_streams")

ALL_FAULTS = FaultRates(
    refused_binds=0.05,
    slow_binds=0.05,
    lost_answers=0.1,
    throttled_calls=0.1,
    server_errors=0.05,
    failing_nodes=20.0,
    broken_streams=15.0,
)


def _amount(name: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not a number") from None
    ceiling = float("inf") if name.replace("-", "_") in _INTERVALS else 1.0
    if not 0 <= amount <= ceiling:
        raise ValueError(f"{name}: {text} is not from 0 to {ceiling:g}")
    return amount


NO_FAULTS = FaultRates()


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The options of a cluster. Equal options give equal clusters. Times are simulated seconds."""

    seed: int = 1
    nodes: int = 12
    jobs: int = 30
    # Time after which the cluster ends, if jobs are left; 0: it ends when all jobs are done.
    duration: float = 60.0
    # Whether the cluster continues after its jobs are done.
    keep: bool = False
    # Jobs arrive within this share of the duration.
    arrival_share: float = 0.5
    # Simulated seconds in one second.
    speed: float = 1.0
    # Shortest and longest run of a gang.
    shortest_run: float = 2.0
    longest_run: float = 8.0
    # Runs are scaled so that jobs request this share of the cluster on average while they arrive;
    # 0: runs are not scaled.
    load: float = 0.0
    # The share of gangs with more than two pods that need only half of them.
    elastic_share: float = 0.3
    # Time from bound to running, from finished to removed, and from evicted to deleted.
    start_seconds: float = 0.3
    linger_seconds: float = 0.5
    grace_seconds: float = 0.5
    # Real seconds of a call, and of a slow call.
    call_seconds: float = 0.002
    slow_call_seconds: float = 1.0
    # Time until a failed node returns.
    outage_seconds: float = 5.0
    # Names of jobs whose binds are refused.
    refused_jobs: frozenset[str] = frozenset()
    faults: FaultRates = NO_FAULTS
    # The scheduler configuration; empty: the default of the core.
    scheduler_conf: str = ""
    # 0: the default of the core.
    schedule_period: float = 0.0
