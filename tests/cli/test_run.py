"""``pumice run``: whose arguments are whose, and what its processes are told."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pumice.adapters.kubernetes import supervision
from pumice.adapters.kubernetes.supervision import PROGRAM, supervise
from pumice.adapters.runtime.clock import SystemClock
from pumice.cli import run
from pumice.server.commands import core_command

Parts = tuple[Sequence[str], Sequence[str], str, Sequence[str] | None]


def parts(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Parts:
    found: list[Parts] = []

    def together(values: dict[str, Any], *parts: Any) -> int:
        found.append(parts)
        return 0

    monkeypatch.setattr(run, "run_together", together)
    result = CliRunner().invoke(run.run_command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_arguments_go_to_whom_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for_core, for_adapter, listen, for_controllers = parts(
        monkeypatch,
        *(
            "--kubeconfig",
            "here",
            "--record",
            "some where",
            "--enable-metrics",
            "--replica-at-start",
        ),
        *("--scheduler-name=a", "--record-keep=3", "--scheduler-name", "b", "-v", "3"),
        *("--listen", "127.0.0.1:7461", "--shadow", "--metrics-address=:9", "-v=4"),
        *("--replica-idle-minutes", "0.5", "--leader-elect=false"),
    )
    assert for_core == (
        "--record=some where",
        "--record-keep=3",
        "--replica-at-start",
        "--replica-idle-minutes=0.5",
        "--metrics-address=:9",
    )
    assert for_adapter == (
        *("--kubeconfig", "here", "--enable-metrics", "--scheduler-name=a"),
        *("--scheduler-name", "b", "-v", "3", "--shadow", "-v=4", "--leader-elect=false"),
    )
    assert listen == "127.0.0.1:7461"
    assert for_controllers is None


def test_what_is_not_given_is_left_to_either(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parts(monkeypatch) == ((), (), "", None)


def test_a_core_understands_all_that_it_may_be_handed() -> None:
    known = {option.name for option in core_command.params}
    assert {option.name for option in run._core_part.params} <= known | {"controllers"}


def test_controllers_get_what_concerns_them(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (
        "--kubeconfig=here",
        "--controllers",
        "--scheduler-name=a",
        "--leader-elect-retry-period=1s",
    )
    for_core, for_adapter, _, for_controllers = parts(monkeypatch, *given)
    assert (for_core, for_adapter) == ((), (given[0], *given[2:]))
    assert for_controllers is not None
    assert for_controllers[0] == "--controllers=*,-sharding-controller"
    wanted = {"--kubeconfig=here", "--scheduler-name=a", "--leader-elect-retry-period=1.0s"}
    assert wanted <= set(for_controllers)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--node-selector", "x"], "key:value"),
        (["--record-mib", "0"], "--record-mib"),
        (["--listen", "0.0.0.0:7461"], "is not an address of this machine; allowed: unix:/path"),
        (["--listen", "127.0.0.1:0"], "is not an address of this machine"),
        (["--recordings", "x"], "--recordings"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(run.run_command, arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "Usage: run " in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kubeconfig", "{none}"], "{none}: no such file"),
        (["--kubeconfig", "{none}", "--record", "{none}/x.pumice"], "{none}"),
    ],
)
def test_it_ends_when_what_either_was_given_cannot_be(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    none = str(tmp_path / "none")
    done = subprocess.run(
        [*PROGRAM, "run", *(argument.format(none=none) for argument in arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert said.format(none=none) in done.stderr


async def test_a_token_in_the_environment_is_not_for_this_core(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "both.py"
    script.write_text(
        "import os, sys, time; from pathlib import Path\n"
        "if sys.argv[1] == 'core': time.sleep(60)\n"
        f"held = [name for name in os.environ if name.startswith('PUMICE_')]\n"
        f"Path({str(tmp_path)!r}, 'told').write_text(' '.join([*sys.argv[1:], *held]))\n"
        "raise SystemExit(2)\n"
    )
    monkeypatch.setattr(supervision, "PROGRAM", (sys.executable, str(script)))
    for name in ("PUMICE_TOKEN", "PUMICE_TOKEN_FILE", "PUMICE_OTHER"):
        monkeypatch.setenv(name, "x")
    assert await supervise("unix:/here", ("--replica-at-start",), ("-v=3",), SystemClock(), 5) == 2
    told = (tmp_path / "told").read_text()
    assert told == "adapter kubernetes --core unix:/here -v=3 PUMICE_OTHER"
