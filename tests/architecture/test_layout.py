"""One namespace over four source roots, in small files."""

import importlib
from pathlib import Path

import pytest

from tests.architecture.tree import (
    NAMESPACES,
    REPOSITORY,
    SOURCE_ROOTS,
    packages,
    python_files,
    shown,
)

LINE_CEILING = 400
ROOMS = ("v1", "core", "server", "adapters", "manifests", "client", "testing", "cli", "bench")


@pytest.mark.parametrize("namespace", NAMESPACES, ids=shown)
def test_a_namespace_root_holds_folders_only(namespace: Path) -> None:
    # One stray __init__.py would hide the other three roots.
    assert [path.name for path in namespace.iterdir() if path.is_file()] == []


def test_a_source_root_holds_the_namespace_only() -> None:
    beside = [
        shown(path)
        for root in SOURCE_ROOTS
        for path in root.iterdir()
        if path.name not in {"pumice", "__pycache__"}
    ]
    # Thresholds and the protocol's baseline are for those who build, not for those who install.
    assert sorted(beside) == ["bench/cases.yaml", "proto/v1.binpb"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_can_be_imported(room: str) -> None:
    assert importlib.import_module(f"pumice.{room}").__doc__


def test_no_two_roots_hold_the_same_room() -> None:
    rooms = [path.name for namespace in NAMESPACES for path in namespace.iterdir()]
    assert len(rooms) == len(set(rooms))


def test_every_package_is_regular_and_typed() -> None:
    missing = [
        shown(folder / name)
        for folder in packages()
        for name in ("__init__.py", "py.typed")
        if not (folder / name).is_file()
    ]
    assert missing == []


def test_no_written_file_passes_the_line_ceiling() -> None:
    folders = [*SOURCE_ROOTS, REPOSITORY / "tests", REPOSITORY / "bench"]
    counts = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files(*folders)
    }
    assert {path: lines for path, lines in counts.items() if lines > LINE_CEILING} == {}


def test_no_module_is_named_for_nothing() -> None:
    vague = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}
    assert [shown(path) for path in python_files(*NAMESPACES) if path.stem in vague] == []
