"""Other Pythons of this machine, each with what a replay needs; made once into the user's cache."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from tests.controlplane.binaries import cache_folder

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
# What the command line takes to replay; without the Kubernetes client, which takes a minute.
NEEDED = (
    *("PyYAML", "click", "grpcio", "grpcio-status", "msgspec", "numpy", "protobuf", "rich"),
    *("tenacity", "zstandard"),
)
_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


class NotMadeError(Exception):
    """An environment could not be made, and why."""


def others() -> dict[str, Path]:
    """By version, one Python of each minor version from 3.11 on but this one's own."""
    folders = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    folders += sorted(Path.home().glob(".pyenv/versions/*/bin"))
    folders += [Path(p) for p in os.environ.get("PUMICE_TEST_PYTHONS", "").split(os.pathsep) if p]
    found: dict[str, Path] = {}
    for minor in range(11, 20):
        if minor == sys.version_info.minor:
            continue
        for version, python in _working(folders, f"python3.{minor}"):
            found[version] = python
            break
    return found


def _working(folders: list[Path], name: str) -> Iterator[tuple[str, Path]]:
    """Some of those on the path are only stand-ins for what is not chosen."""
    for folder in folders:
        python = folder / name
        if python.exists():
            asked = subprocess.run(
                [python, "-c", _VERSION], capture_output=True, text=True, check=False
            )
            if asked.returncode == 0:
                yield asked.stdout.strip(), python


def environment_of(version: str, python: Path) -> Path:
    """The Python of an environment with the pinned packages."""
    pins = sha256(CONSTRAINTS.read_bytes() + "\n".join(NEEDED).encode()).hexdigest()[:12]
    folder = cache_folder().parent / "pythons" / f"{version}-{pins}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder / "bin" / "python"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            _run(python, "-m", "venv", "--clear", folder)
            _run(made, "-m", "pip", "install", "--quiet", "-c", CONSTRAINTS, *NEEDED)
            (folder / "whole").touch()
    return made


def _run(*command: Path | str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise NotMadeError(lines[-1] if lines else f"{command[0]} ended with {done.returncode}")
