"""A control plane ends with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.architecture.tree import REPOSITORY
from tests.controlplane import binaries

_SECONDS = 60.0
_SERVERS = {"etcd", "kube-apiserver"}


def servers_in(folder: Path) -> dict[str, int]:
    """etcd and kube-apiserver processes whose files are in a folder."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if Path(words[0]).name in _SERVERS and any(str(folder) in word for word in words):
                found[Path(words[0]).name] = int(process.name)
    return found


def wait_for(folder: Path, names: set[str]) -> None:
    end = time.monotonic() + _SECONDS
    while set(servers_in(folder)) != names:
        assert time.monotonic() < end, f"{servers_in(folder)} run, expected {names}"
        time.sleep(0.1)


def test_a_killed_test_run_leaves_no_servers_behind(tmp_path: Path) -> None:
    reason = binaries.why_not()
    if reason is not None:
        pytest.skip(reason)
    command = [sys.executable, "-m", "tests.controlplane", "sleep", "300"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, process_group=0) as run:
        wait_for(tmp_path, _SERVERS)
        run.send_signal(signal.SIGKILL)
        wait_for(tmp_path, set())
        # The command that it ran belongs to the test.
        os.killpg(run.pid, signal.SIGKILL)
