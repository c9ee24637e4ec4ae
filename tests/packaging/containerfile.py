"""The Containerfile as tests read it: stages, and the instructions of each."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from tests.architecture.tree import REPOSITORY

PATH = REPOSITORY / "Containerfile"
KNOWN = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with its continued lines joined."""

    word: str
    rest: str

    @property
    def sources(self) -> list[str]:
        """What a COPY takes from the build context; nothing for a copy between stages."""
        if self.word != "COPY" or self.rest.startswith("--from"):
            return []
        return self.rest.split()[:-1]


@dataclass(slots=True)
class Stage:
    """What follows one FROM."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def of(self, word: str) -> list[Instruction]:
        return [one for one in self.instructions if one.word == word]

    def last(self, word: str) -> str:
        return self.of(word)[-1].rest


def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", PATH.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    return [Instruction(*line.split(maxsplit=1)) for line in lines if line]


def stages() -> list[Stage]:
    found: list[Stage] = []
    for one in instructions():
        if one.word == "FROM":
            base, _, name = one.rest.partition(" AS ")
            found.append(Stage(base, name))
        elif found:
            found[-1].instructions.append(one)
    return found


def ignored() -> list[str]:
    """The patterns of .dockerignore."""
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def copy_into(context: Path, source: str, target: Path) -> None:
    """Copies one source of a COPY line, without what .dockerignore names."""
    patterns = [pattern.removeprefix("**/") for pattern in ignored()]

    def names(_: str, found: list[str]) -> set[str]:
        return {name for name in found if any(fnmatch(name, one) for one in patterns)}

    if (context / source).is_dir():
        shutil.copytree(context / source, target / source, ignore=names)
    else:
        shutil.copy(context / source, target / source)
