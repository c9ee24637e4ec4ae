"""The kernel is compiled where that is possible; where it is not, installing goes on without it."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from hatchling.metadata.core import ProjectMetadata

import hatch_build

ROOT = Path(hatch_build.__file__).parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / hatch_build.KERNEL, tmp_path / hatch_build.KERNEL)
    return tmp_path


def with_compiler(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    known = sysconfig.get_config_var

    def answer(name: str) -> Any:
        return command if name == "CC" else known(name)

    monkeypatch.setattr(sysconfig, "get_config_var", answer)


@pytest.mark.parametrize(
    ("compiler", "problem"),
    [("no-such-compiler", "cannot be compiled here"), ("false", "the compiler ended with 1")],
)
def test_without_a_compiler_there_is_a_reason_and_no_kernel(
    copy: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, problem: str
) -> None:
    with_compiler(monkeypatch, compiler)
    assert problem in hatch_build.compile_kernel(copy)
    assert not (copy / hatch_build.KERNEL / hatch_build.LIBRARY).exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_with_a_compiler_it_is_made(copy: Path) -> None:
    (copy / hatch_build.KERNEL / hatch_build.LIBRARY).unlink(missing_ok=True)
    assert hatch_build.compile_kernel(copy) == ""
    assert (copy / hatch_build.KERNEL / hatch_build.LIBRARY).exists()


def hook(folder: Path) -> hatch_build.KernelHook:
    metadata = ProjectMetadata[Any](str(folder), None)
    return hatch_build.KernelHook(str(folder), {}, None, metadata, str(folder), "wheel")


def test_a_build_that_requires_the_kernel_fails_without_it(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_compiler(monkeypatch, "no-such-compiler")
    monkeypatch.setenv("PUMICE_KERNEL", "required")
    with pytest.raises(RuntimeError, match=r"PUMICE_KERNEL is required: .* cannot be compiled"):
        hook(copy).initialize("standard", {"artifacts": []})


def test_a_build_that_does_not_know_the_choice_says_what_is_allowed(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUMICE_KERNEL", "yes")
    with pytest.raises(ValueError, match="PUMICE_KERNEL is 'yes'; allowed: optional, required"):
        hook(copy).initialize("standard", {"artifacts": []})
