"""The recordings in the arguments of a command: files, and folders with files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pumice.cli.errors import BAD_INPUT, InputProblem
from pumice.cli.terminal import print_error
from pumice.recordings import SUFFIX, Recording, RecordingError


def recording_files(given: Sequence[Path]) -> list[Path]:
    """The files, and all recordings of the folders, ordered by name."""
    found: list[Path] = []
    for path in given:
        inside = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            raise InputProblem(f"{path}: no file in this folder ends in {SUFFIX}")
        found += inside
    return found


def opened_files(paths: Sequence[Path], codes: list[int]) -> Iterator[Recording]:
    """Opens each recording; reports unreadable ones, and adds their exit code to ``codes``."""
    for path in paths:
        try:
            held = Recording(path)
        except RecordingError as error:
            print_error(str(error))
            codes.append(BAD_INPUT)
            continue
        with held:
            yield held


def readable_files(paths: Sequence[Path], codes: list[int]) -> list[Path]:
    """The readable recordings; reports the others. Raises InputProblem if none can be read."""
    found = [held.path for held in opened_files(paths, codes)]
    if not found:
        raise InputProblem(f"{paths[0]}: no recording can be read")
    return found
