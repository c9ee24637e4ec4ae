"""What a simulated cluster is made of, and what goes wrong in it."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes wrong. Rates are shares of calls; times are simulated seconds; 0 means never."""

    refused_binds: float = 0.0
    slow_binds: float = 0.0
    # The call takes effect, the answer does not come.
    lost_answers: float = 0.0
    throttled_calls: float = 0.0
    server_errors: float = 0.0
    # A node dies, and a stream breaks, about this often.
    dying_nodes: float = 0.0
    broken_streams: float = 0.0

    @classmethod
    def parse(cls, words: Iterable[str]) -> "Trouble":
        """Reads `all`, `lost-answers` or `lost-answers=0.2`. Raises ValueError."""
        trouble = cls()
        for word in words:
            if word == "all":
                trouble = ALL_TROUBLE
                continue
            name, equals, amount = word.partition("=")
            field = name.replace("-", "_")
            if field not in TROUBLES:
                known = ", ".join(["all", *(known.replace("_", "-") for known in TROUBLES)])
                raise ValueError(f"unknown trouble {name!r}; there are: {known}")
            value = _amount(name, amount) if equals else getattr(ALL_TROUBLE, field)
            trouble = replace(trouble, **{field: value})
        return trouble


TROUBLES = tuple(field.name for field in fields(Trouble))
_TIMES = ("dying_nodes", "broken_streams")

ALL_TROUBLE = Trouble(
    refused_binds=0.05,
    slow_binds=0.05,
    lost_answers=0.1,
    throttled_calls=0.1,
    server_errors=0.05,
    dying_nodes=20.0,
    broken_streams=15.0,
)


def _amount(name: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not a number") from None
    ceiling = float("inf") if name.replace("-", "_") in _TIMES else 1.0
    if not 0 <= amount <= ceiling:
        raise ValueError(f"{name}: {text} is not between 0 and {ceiling:g}")
    return amount


NO_TROUBLE = Trouble()


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """One simulated cluster; equal options make equal clusters. Times are simulated seconds."""

    seed: int = 1
    nodes: int = 12
    jobs: int = 30
    # The cluster ends when all jobs are done, at the latest after this time. 0: when they are done.
    duration: float = 60.0
    # The cluster does not end by itself.
    keep: bool = False
    # Jobs arrive within this share of the duration.
    arrival_share: float = 0.5
    # Simulated seconds in one second.
    speed: float = 1.0
    # How long a gang runs, at least and at most.
    shortest_run: float = 2.0
    longest_run: float = 8.0
    # Runs are made longer or shorter so that the jobs ask for this share of the cluster while they
    # arrive, on average; 0: they are left as they are.
    load: float = 0.0
    # The share of gangs of more than two that are content with half their pods.
    elastic_share: float = 0.3
    # From bound to running, from finished to removed, from evicted to gone.
    start_seconds: float = 0.3
    linger_seconds: float = 0.5
    grace_seconds: float = 0.5
    # How long the simulated API takes, and takes when it is slow; real seconds.
    call_seconds: float = 0.002
    slow_call_seconds: float = 1.0
    # How long a dead node stays away.
    outage_seconds: float = 5.0
    # Jobs, by name, whose binds are refused for ever.
    refused_jobs: frozenset[str] = frozenset()
    trouble: Trouble = NO_TROUBLE
    # The scheduler configuration's text; empty: the core's default.
    scheduler_conf: str = ""
    # 0: the core's default.
    schedule_period: float = 0.0
