"""The frontends in other languages are generated, compiled and run against a running core."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.server.conftest import core, socket_folder
from tests.server.running import RunningCore

__all__ = ["core", "socket_folder"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
_MINUTES = 5
# What tools say when they cannot fetch what they need.
_OFFLINE = ("dial tcp", "no such host", "i/o timeout", "ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 * _MINUTES)]


async def run(folder: Path, *command: str, **environment: str) -> str:
    """The output of a command; skips the test where a registry cannot be reached."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    text = said.decode()
    if process.returncode and any(word in text for word in _OFFLINE):
        pytest.skip(f"{command[0]}: no registry can be reached from here")
    assert process.returncode == 0, text
    return text


def copied(name: str, target: Path) -> Path:
    ignored = shutil.ignore_patterns("node_modules", "generated", "dist", "pumicev1", "bin")
    shutil.copytree(EXAMPLES / name, target / name, ignore=ignored)
    return target / name


def blocks(name: str) -> list[list[str]]:
    """The console blocks of an example's README, as lines."""
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    return [each.splitlines() for each in re.findall(r"```console\n(.*?)```", text, re.DOTALL)]


def test_the_examples_ask_about_the_same_manifest() -> None:
    go, typescript = (EXAMPLES / f"frontend-{each}/manifest.yaml" for each in ("go", "typescript"))
    assert go.read_text(encoding="utf-8") == typescript.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "tool"), [("frontend-go", "go"), ("frontend-typescript", "npm")])
async def test_an_example_runs_as_its_readme_says(
    core: RunningCore, tmp_path: Path, name: str, tool: str
) -> None:
    """In a copy of the folders that it uses, with the commands of the README and nothing else."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    folder = copied(name, tmp_path / "docs" / "examples")
    (tmp_path / "proto").symlink_to(ROOT / "proto")
    # The environment of `make env`, which the first block makes.
    (tmp_path / ".venv").symlink_to(sys.prefix)
    start, commands = blocks(name)
    assert start == ["$ make env && .venv/bin/pumice core"]
    said = ""
    for line in commands:
        if line.startswith("$ "):
            said = await run(folder, "sh", "-c", line[2:], PUMICE_ADDRESS=core.server.address)
    assert said.splitlines() == commands[-len(said.splitlines()) :]
    assert len(said.splitlines()) == 5
