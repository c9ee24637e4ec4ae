"""Errors of all commands: one line with the same prefix, and an exit code."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.commands import process

_COMMAND = (sys.executable, "-m", "pumice.cli")
NOWHERE = "unix:/nowhere/core.sock"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["core", "--listen", "nonsense"], "nonsense: use HOST:PORT or unix:/path/to/socket"),
        (["core", "--metrics-address", "nonsense"], "nonsense: use HOST:PORT, such as 127.0.0.1"),
        (["core", "--metrics-address", "127.0.0.1:99999"], "127.0.0.1:99999: use HOST:PORT"),
        (
            ["adapter", "kubernetes", "--core", NOWHERE, "--kubeconfig", "/nowhere/config"],
            "--kubeconfig /nowhere/config: no such file",
        ),
        (["adapter", "simulated", "--core", NOWHERE, "--fault", "x"], "unknown fault 'x'"),
        (
            ["adapter", "simulated", "--core", NOWHERE, "--state", "/nowhere/x"],
            "/nowhere/x: No such",
        ),
        (["adapter", "replay", "--core", NOWHERE, "README.md"], "README.md: is not a recording"),
        (["demo", "--fault", "x"], "unknown fault 'x'"),
        (["demo", "--record", "/nowhere/x.pumice"], "/nowhere is not a folder"),
        (["show", "queues", "--core", "nonsense"], "invalid address 'nonsense'"),
        (["show", "queues", "--core", "127.0.0.1:1"], "no core answers at 127.0.0.1:1"),
        (["replay", "/nowhere"], "/nowhere: No such file or directory"),
        (["bench", "nonsense"], "unknown benchmark 'nonsense'; allowed: all, "),
    ],
)
def test_an_error_is_one_line_with_the_prefix(arguments: list[str], problem: str) -> None:
    done = process(*arguments)
    assert done.code in (1, 2)
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("pumice: ")
    assert problem in lines[0]


def test_a_missing_kubeconfig_ends_both_processes(tmp_path: Path) -> None:
    missing = tmp_path / "config"
    done = process("run", "--kubeconfig", missing)
    assert done.code == 2
    assert f"pumice: --kubeconfig {missing}: no such file" in done.err


def test_a_core_prints_the_port_of_its_metrics(tmp_path: Path) -> None:
    arguments = ["core", "--listen", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
    with subprocess.Popen(
        [*_COMMAND, *arguments, "--log-level", "error"], stdout=subprocess.PIPE, text=True
    ) as core:
        assert core.stdout is not None
        assert core.stdout.readline().startswith("pumice core listens on 127.0.0.1:")
        page = core.stdout.readline().rpartition(" ")[2].strip()
        core_is_ready = urllib.request.urlopen(f"{page}/livez", timeout=20).status == 200
        core.terminate()
    assert core_is_ready
