"""kube-apiserver, etcd and kubectl, built once from the module registry into the user's cache.

`python -m tests.controlplane.binaries` builds them and prints their paths.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MODULES = Path(__file__).parent
# About eight CPU minutes without a cache; seconds when Go has the packages in its cache.
_BUILD_SECONDS = 1500


class BuildError(Exception):
    """A program could not be built; the text has the output of Go."""


@dataclass(frozen=True, slots=True)
class Program:
    """A third-party program that tests run: the module that pins it, and its package."""

    name: str
    version: str
    module: Path
    package: str

    @property
    def path(self) -> Path:
        """The path of the built program. The name of its folder depends on all sources."""
        digest = hashlib.sha256()
        for part in ("go.mod", "go.sum", "main.go"):
            if (self.module / part).is_file():
                digest.update((self.module / part).read_bytes())
        folder = f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"
        return cache_folder() / folder / self.name


APISERVER = Program(
    "kube-apiserver", "1.36.1", _MODULES / "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"
)
ETCD = Program("etcd", "3.6.5", _MODULES / "etcd", "go.etcd.io/etcd/server/v3")
KUBECTL = Program("kubectl", "1.36.1", _MODULES / "kubectl", "pumice.test/kubectl")
PROGRAMS = (ETCD, APISERVER, KUBECTL)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pumice" / "controlplane"


def why_not() -> str | None:
    """Why the programs cannot be built here; None: they can."""
    if all(program.path.is_file() for program in PROGRAMS) or shutil.which("go"):
        return None
    return "Go is not installed, so kube-apiserver, etcd and kubectl cannot be built"


def are_built() -> bool:
    return all(program.path.is_file() for program in PROGRAMS)


def build(program: Program) -> Path:
    """Builds the program unless it is built; other processes wait meanwhile. Raises BuildError."""
    path = program.path
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.parent / "lock"):
        if not path.is_file():
            _go_build(program, path)
    return path


def _go_build(program: Program, path: Path) -> None:
    unfinished = path.with_suffix(".part")
    command = ["go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", str(unfinished)]
    try:
        done = subprocess.run(
            [*command, program.package],
            cwd=program.module,
            # The module is independent of any workspace around it.
            env={**os.environ, "GOWORK": "off"},
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{program.name}: not built within {_BUILD_SECONDS} s") from error
    if done.returncode:
        raise BuildError(f"{program.name}: go build failed\n{done.stderr[-2000:]}")
    unfinished.replace(path)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if problem := why_not():
        sys.exit(problem)
    for wanted in PROGRAMS:
        print(build(wanted))
