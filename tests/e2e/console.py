"""Pages with commands and their output, as a reader would type and compare them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

# What differs from one run to the next: ages, and identities of lease holders.
_VARIABLE = re.compile(r"\d+[smhd]|\S+_\S+")


@dataclass(slots=True)
class Step:
    """A command, and the lines of output that the page shows for it."""

    command: str
    shown: list[str] = field(default_factory=list)

    def missing(self, output: str) -> list[str]:
        """The shown lines that the output lacks, or has in another order."""
        lines = iter(output.splitlines())
        return [
            expected
            for expected in self.shown
            if not any(_pattern(expected).fullmatch(line.strip()) for line in lines)
        ]


def _pattern(line: str) -> re.Pattern[str]:
    words = [r"\S+" if _VARIABLE.fullmatch(word) else re.escape(word) for word in line.split()]
    return re.compile(r"\s+".join(words))


def steps(page: Path) -> list[Step]:
    """Every command of the page's `console` blocks, in order."""
    found: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text("utf-8"), re.S | re.M):
        for line in block.replace("\\\n", "").splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:]))
            else:
                found[-1].shown.append(line)
    return found


def scripts(page: Path) -> list[str]:
    """The commands of the page's `sh` blocks: shown, and not run line by line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]
