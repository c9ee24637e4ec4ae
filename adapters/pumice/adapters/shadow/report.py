"""Reports differences and summaries, as text and as JSON lines."""

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.shadow.differences import Difference, Tally

log = logging.getLogger(__name__)


def to_standard_output(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    # The reader of a pipe gets each line at once.
    sys.stdout.flush()


class Reporter:
    """Prints a line for each difference, and writes differences and summaries to a file."""

    def __init__(
        self,
        scheduler: str,
        clock: Clock,
        file: Path | None = None,
        echo: Callable[[str], None] = to_standard_output,
    ) -> None:
        self._scheduler, self._clock, self._file, self._echo = scheduler, clock, file, echo

    def difference(self, difference: Difference) -> None:
        self._echo(difference.shown(self._scheduler))
        fields = {name: value for name, value in asdict(difference).items() if value}
        fields["what"] = difference.what.value
        self._write("difference", fields)

    def refuse(self, problem: str) -> None:
        """Reports that nothing was compared, instead of a summary."""
        self._write("no summary", {"problem": problem})
        self._echo(f"shadow of {self._scheduler}: nothing was compared: {problem}")

    def summary(self, tally: Tally) -> None:
        """Writes a summary to the file."""
        fields: dict[str, Any] = asdict(tally)
        fields["agreement_percent"] = tally.agreement_percent
        fields["start_agreement_percent"] = tally.start_agreement_percent
        self._write("summary", fields)

    def end(self, tally: Tally) -> None:
        """Writes and prints the last summary."""
        self.summary(tally)
        for line in shown(tally, self._scheduler):
            self._echo(line)

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        if self._file is None:
            return
        moment = datetime.fromtimestamp(self._clock.unix_ms() / 1000, UTC)
        line = {"time": moment.isoformat(timespec="milliseconds"), "type": kind, **fields}
        try:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            # Logged once; standard output still has the differences.
            log.error("%s cannot be written: %s", self._file, error.strerror or error)
            self._file = None


def shown(tally: Tally, them: str) -> list[str]:
    """A summary as lines of text."""
    return [
        f"shadow of {them}: {_shown(tally.agreement_percent)} of all decisions were the same,"
        f" {_shown(tally.start_agreement_percent)} of pods were started by both",
        f"  pods       {tally.pods_same_node} same node,"
        f" {tally.pods_equivalent_node} equivalent node, {tally.pods_other_node} other node,"
        f" {tally.pods_only_theirs} only {them}, {tally.pods_only_ours} only pumice,"
        f" {tally.pods_not_compared} not compared",
        f"  jobs       {tally.jobs_together} together, by pumice {tally.jobs_earlier} earlier and"
        f" {tally.jobs_later} later, {tally.jobs_never} never by {them}",
        f"  evictions  {tally.evictions_agreed} agreed, {tally.evictions_only_theirs} only {them},"
        f" {tally.evictions_only_ours} only pumice",
    ]


def _shown(percent: float | None) -> str:
    return "none" if percent is None else f"{percent:g} %"
