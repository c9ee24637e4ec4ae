"""The build stage of the image, rehearsed: its own files, its own commands, an empty folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.tree import GENERATED, REPOSITORY, SOURCE_ROOTS
from tests.packaging.containerfile import copy_into, stages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
BUILD, FINAL = stages()
_COMMAND_SECONDS = 400
# Only these reach the rehearsal: how this machine reaches the package registry.
_PASSED = re.compile(r"PIP_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|\w+_proxy|\w+_PROXY")
_VERSIONS = """
import importlib.metadata, json
print(json.dumps({one.name: one.version for one in importlib.metadata.distributions()}))
"""


@dataclass(slots=True)
class Image:
    """A folder that stands for the file system of the image."""

    root: Path

    def at(self, path: str) -> Path:
        """A path of the image, on this machine."""
        return self.root / path.lstrip("/")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if _PASSED.fullmatch(name)}
        path = f"{self.at('/opt/pumice/bin')}:{self.at('/bin')}:/usr/bin:/bin"
        return {**kept, "PATH": path, "HOME": str(self.root)}

    def shell(self, command: str, folder: Path) -> None:
        # Absolute paths of the image become paths below the folder.
        adapted = re.sub(r"(^|(?<=[\s=]))/(?=\w)", f"{self.root}/", command)
        self.run("/bin/sh", "-ec", adapted, folder=folder)

    def run(self, *command: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            command,
            cwd=folder or self.at("/empty"),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    @property
    def wheel(self) -> Path:
        (found,) = self.at("/dist").glob("*.whl")
        return found


def _provide_python(image: Image) -> None:
    """`python3` as the base image has it: not the environment that runs these tests."""
    image.at("/empty").mkdir(parents=True)
    script = image.at("/bin/python3")
    script.parent.mkdir()
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    script.write_text(f'#!/bin/sh\nexec "{base}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    image = Image(tmp_path_factory.mktemp("image"))
    _provide_python(image)
    folder = image.root
    for one in BUILD.instructions:
        if one.word == "WORKDIR":
            folder = image.at(one.rest)
            folder.mkdir(parents=True, exist_ok=True)
        elif one.word == "COPY":
            for source in one.sources:
                copy_into(REPOSITORY, source, folder)
        elif one.word == "RUN" and "apt-get" not in one.rest:
            image.shell(one.rest, folder)
    return image


def test_the_kernel_and_every_module_are_in_the_wheel(image: Image) -> None:
    with zipfile.ZipFile(image.wheel) as wheel:
        names = set(wheel.namelist())
    assert [name for name in names if name.endswith(".so")] == ["pumice/core/kernel/_rows.abi3.so"]
    assert "-cp311-abi3-linux_" in image.wheel.name
    modules = {
        path.relative_to(root).as_posix()
        for root in SOURCE_ROOTS
        for path in root.rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert modules - names == set()
    assert any(name.endswith(GENERATED) for name in names)


def test_what_is_installed_is_pinned(image: Image) -> None:
    python = str(image.at("/opt/pumice/bin/python"))
    installed = json.loads(image.run(python, "-c", _VERSIONS))
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    del installed["pumice"]
    assert {name: pins.get(name) for name in installed} == installed


def test_the_final_stage_takes_what_the_build_stage_made(image: Image) -> None:
    for one in FINAL.of("COPY"):
        source = one.rest.split()[1]
        assert image.at(source).is_dir()
    python = str(image.at("/opt/pumice/bin/python"))
    loaded = image.run(python, "-c", "from pumice.core import kernel; print(kernel.rows.__file__)")
    assert Path(loaded.strip()).is_relative_to(image.at("/opt/pumice"))


def test_the_command_of_the_image_runs_the_demo(image: Image) -> None:
    (command,) = json.loads(FINAL.last("ENTRYPOINT"))
    program = str(image.at(f"/opt/pumice/bin/{command}"))
    version = image.run(program, "--version")
    assert version.strip().endswith(image.wheel.name.split("-")[1])
    options = ("--json", "--jobs", "12", "--nodes", "3", "--seconds", "15")
    summary = json.loads(image.run(program, "demo", *options))
    assert summary["pods_bound"] > 0
    assert (summary["gangs_whole"], summary["gangs_short"]) == (12, 0)


def test_the_source_archive_can_build_the_kernel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=60)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"hatch_build.py", "pyproject.toml", "server/pumice/core/kernel/_rows.c"} <= names
    assert not any(name.endswith(".so") for name in names)
