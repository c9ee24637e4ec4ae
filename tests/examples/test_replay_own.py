"""The example project of the documentation: its tests pass, and fail when they should."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "replay-own"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    target = tmp_path / "project"
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return target


def outcome_of(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_project_passes_its_tests(project: Path) -> None:
    done = outcome_of(project)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_the_project_notices_another_decision(project: Path) -> None:
    path = project / "tests" / "session.json"
    body = json.loads(path.read_text(encoding="utf-8"))
    body["expect"][0]["binds"] = dict.fromkeys(body["expect"][0]["binds"], "elsewhere")
    path.write_text(json.dumps(body), encoding="utf-8")
    done = outcome_of(project)
    assert done.returncode == 1
    assert "expected to bind" in done.stdout
    assert "3 passed" in done.stdout
