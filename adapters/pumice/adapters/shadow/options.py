"""How pumice is run beside another scheduler."""

from dataclasses import dataclass
from pathlib import Path

WAIT_SECONDS = 3.0
EVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ShadowOptions:
    """Whom to compare with, for how long, and where to write."""

    # The name of the scheduler that runs the cluster.
    scheduler: str = "volcano"
    # How long either scheduler is waited for when the other one has decided.
    wait_seconds: float = WAIT_SECONDS
    # Differences and summaries, one JSON object a line; None: on standard output only.
    report: Path | None = None
    # From one summary in the report to the next.
    every_seconds: float = EVERY_SECONDS

    def __post_init__(self) -> None:
        if self.wait_seconds <= 0 or self.every_seconds <= 0:
            raise ValueError("--shadow-wait and --shadow-every must be longer than 0s")
