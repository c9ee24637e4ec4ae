"""Errors of all commands: one line with the same prefix, and an exit code."""

import os
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


RECORDING = Path(__file__).parents[1] / "recordings" / "demo-with-evictions.pumice"


def shell(redirected: str, *arguments: str | Path, **environment: str) -> tuple[int, str]:
    """The exit code and the output of a command with other streams."""
    words = " ".join(f"'{word}'" for word in (*_COMMAND, *map(str, arguments)))
    done = subprocess.run(
        ["bash", "-c", f"{words} {redirected}"],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")


@pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-", "2>&-", "2>/dev/full"])
def test_closed_streams_change_no_exit_code(redirected: str) -> None:
    for path, code in ((RECORDING, 0), (Path("/nowhere"), 2)):
        found, output = shell(redirected, "recording", "info", path)
        assert found == code
        assert "internal error" not in output


def test_characters_that_the_locale_lacks_are_escaped() -> None:
    code, output = shell("", "replay", RECORDING, "--closed", PYTHONIOENCODING="ascii")
    assert code == 0
    assert "\\u2192" in output


def test_the_name_of_a_file_need_not_be_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"r\xff.pumice")
    path.write_bytes(RECORDING.read_bytes())
    code, output = shell("", "recording", "info", tmp_path, PYTHONIOENCODING="utf-8:strict")
    assert code == 0
    assert "r\\udcff.pumice" in output
