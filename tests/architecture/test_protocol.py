"""The protocol is guarded by a baseline in the repository: additions pass, breaks do not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).with_name("buf")
BASELINE = ROOT / "proto" / "v1.binpb"

BREAKS = {
    "a field that is deleted": ("delta.proto", "  int64 revision = 3;\n", ""),
    "a field with another number": ("delta.proto", "string uid = 2;", "string uid = 9;"),
    "a field of another type": ("delta.proto", "int64 revision = 3;", "string revision = 3;"),
    "a field with another name": ("delta.proto", "int64 revision = 3;", "int64 version = 3;"),
    "a value that is deleted": ("object.proto", "  KIND_NODE_SHARD = 25;\n", ""),
    "a method that is deleted": (
        "recording_service.proto",
        "  rpc Record(RecordRequest) returns (stream RecordResponse);\n",
        "",
    ),
}


def compared(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(BUF), "breaking", "--against", str(BASELINE)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    target = tmp_path / "proto" / "pumice" / "v1"
    target.mkdir(parents=True)
    for source in (ROOT / "proto" / "pumice" / "v1").glob("*.proto"):
        shutil.copy(source, target)
    return tmp_path


def edit(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / "proto" / "pumice" / "v1" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("case", BREAKS)
def test_a_break_is_refused(copy: Path, case: str) -> None:
    assert compared(copy).returncode == 0
    edit(copy, *BREAKS[case])
    assert compared(copy).returncode != 0


def test_an_addition_is_accepted(copy: Path) -> None:
    edit(copy, "object.proto", "KIND_NODE_SHARD = 25;", "KIND_NODE_SHARD = 25;\n  KIND_NEW = 26;")
    edit(copy, "delta.proto", "int64 revision = 3;", "int64 revision = 3;\n  string note = 5;")
    assert compared(copy).returncode == 0


def test_the_baseline_is_complete(tmp_path: Path) -> None:
    """What was added is guarded from then on: `make baseline` was run."""
    built = tmp_path / "now.binpb"
    command = [str(BUF), "build", "--exclude-source-info", "--output", str(built)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert built.read_bytes() == BASELINE.read_bytes(), "run 'make baseline'"
