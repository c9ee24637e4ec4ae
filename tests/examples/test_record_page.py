"""The code on the page about recordings runs as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pumice.server.local import built_in_configuration

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "record-and-replay.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def test_the_tests_on_the_page_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tests" / "recordings"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "recordings" / "trouble.pumice", folder / "night.pumice")
    (tmp_path / "scheduler.yaml").write_text(built_in_configuration())
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for source in BLOCKS:
        exec(compile(source, str(PAGE), "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()
