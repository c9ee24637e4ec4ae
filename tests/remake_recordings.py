"""Creates the recordings that tests replay again.

    python -m tests.remake_recordings [--into FOLDER] [NAME…]

They are made anew when the format of recordings changes, or when what is decided changes on
purpose: until then each is a proof that nothing did. The names are those of the files in
``tests/recordings``; without a name, all. A new one takes the place of the old one only when it
holds what it is kept for and replays identical. Two of them come from real processes and differ
each time; run ``pytest tests/replay`` before you keep them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pumice.recordings import Recording
from pumice.testing import assert_replay_identical
from pumice.v1.decision_pb2 import OUTCOME_CODE_APPLIED
from tests.replay.volume_walks import VolumeWalk

FOLDER = Path(__file__).parent / "recordings"
_ATTEMPTS = 3
_MOST_BYTES = 300_000


def _demo(path: Path, *options: str) -> None:
    command = [sys.executable, "-m", "pumice.cli", "demo", "--json", "--record", str(path)]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)


def _with_evictions(path: Path) -> None:
    _demo(path, "--seconds", "18", "--seed", "6")


def _trouble(path: Path) -> None:
    sizes = ("--nodes", "8", "--jobs", "16", "--seconds", "4")
    _demo(path, *sizes, "--fault", "all")


def _volumes(path: Path) -> None:
    walk = VolumeWalk(1)
    # Not from the beginning, so that the checkpoint has something to hold.
    walk.run(10)
    walk.record(path)
    walk.run(40)
    walk.close()


def _evictions_in(path: Path) -> int:
    with Recording(path) as held:
        return sum(d.HasField("evict") for e in held.entries() for d in e.decision_batch.decisions)


def _failures_in(path: Path) -> int:
    with Recording(path) as held:
        ops = [op for entry in held.entries() for op in entry.delta_batch.ops]
    return sum(op.HasField("outcome") and op.outcome.code != OUTCOME_CODE_APPLIED for op in ops)


def _promises_in(path: Path) -> int:
    with Recording(path) as held:
        first = [e.checkpoint for e in held.entries() if e.HasField("checkpoint")]
    return sum(len(part.assumed_volumes) + len(part.assumed_claims) for part in first)


# How each is made, what it is kept for, and how much of that it must hold.
MAKERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], int], int]] = {
    "demo-with-evictions": (_with_evictions, _evictions_in, 21),
    "trouble": (_trouble, _failures_in, 10),
    "volumes": (_volumes, _promises_in, 1),
}


def remake(name: str, folder: Path) -> str:
    """Creates one recording; returns a line about it."""
    make, count, least = MAKERS[name]
    for _ in range(_ATTEMPTS):
        with tempfile.TemporaryDirectory() as made:
            path = Path(made) / f"{name}.pumice"
            make(path)
            held, size = count(path), path.stat().st_size
            if held < least or size > _MOST_BYTES:
                continue
            found = assert_replay_identical(path, statuses=True)
            shutil.copyfile(path, folder / path.name)
            return f"{name}: {found.sessions} sessions, {found.decisions} decisions, {size} bytes"
    raise SystemExit(f"{name}: {held} of {least} in {size} bytes after {_ATTEMPTS} attempts")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.remake_recordings")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MAKERS)}")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in MAKERS]
    if unknown:
        parser.error(f"no recording {unknown[0]!r}; there are {', '.join(MAKERS)}")
    given.into.mkdir(parents=True, exist_ok=True)
    for name in given.names or MAKERS:
        print(remake(name, given.into))


if __name__ == "__main__":
    main()
