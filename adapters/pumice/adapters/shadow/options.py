"""Settings of shadow mode."""

from dataclasses import dataclass
from pathlib import Path

WAIT_SECONDS = 3.0
EVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ShadowOptions:
    """The other scheduler, the time for comparisons, and the report."""

    # The name of the scheduler that runs the cluster.
    scheduler: str = "volcano"
    # Time for one scheduler to decide after the other one has.
    wait_seconds: float = WAIT_SECONDS
    # File for differences and summaries, one JSON object per line; None: standard output only.
    report: Path | None = None
    # Interval between summaries in the report.
    every_seconds: float = EVERY_SECONDS

    def __post_init__(self) -> None:
        if self.wait_seconds <= 0 or self.every_seconds <= 0:
            raise ValueError("--shadow-wait and --shadow-every must be longer than 0s")
