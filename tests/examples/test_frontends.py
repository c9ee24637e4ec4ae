"""The frontends in other languages are generated, compiled and run against a running core."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.server.conftest import core, socket_folder
from tests.server.running import RunningCore

__all__ = ["core", "socket_folder"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
EXPECTED = ["bind team/job-0 to n1", "bind team/job-1 to n1"]
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


async def test_a_frontend_in_go_gets_its_pods_placed(core: RunningCore, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("the go command is not installed")
    folder = copied("frontend-go", tmp_path)
    protoc = f"{sys.executable} -m grpc_tools.protoc"
    await run(folder, "./generate.sh", str(ROOT / "proto"), str(folder), PROTOC=protoc)
    await run(folder, "go", "mod", "tidy")
    await run(folder, "go", "vet", "./...")
    said = await run(folder, "go", "run", ".", PUMICE_ADDRESS=core.server.address)
    assert said.splitlines() == EXPECTED


async def test_a_frontend_in_typescript_gets_its_pods_placed(
    core: RunningCore, tmp_path: Path
) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = copied("frontend-typescript", tmp_path)
    proto = str(ROOT / "proto")
    await run(folder, "npm", "install", "--no-audit", "--no-fund", "--silent")
    await run(folder, "npm", "run", "--silent", "generate", PROTO=proto)
    await run(folder, "npm", "run", "--silent", "build")
    said = await run(
        folder, "node", "dist/main.js", PUMICE_ADDRESS=core.server.address, PROTO=proto
    )
    assert said.splitlines() == EXPECTED
