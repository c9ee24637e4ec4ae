"""The compose file refers to what exists, and its services work together."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.client.settings import DEFAULT_ADDRESS
from tests.architecture.tree import REPOSITORY
from tests.controlplane.guard import GUARD
from tests.controlplane.processes import free_ports

COMPOSE: dict[str, Any] = yaml.safe_load(
    (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8")
)
SERVICES: dict[str, Any] = COMPOSE["services"]


def pumice(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pumice.cli", *arguments]


def published(name: str) -> tuple[str, str]:
    """The address on the host, and the port of the container that it leads to."""
    (line,) = SERVICES[name]["ports"]
    host, _, port = line.rpartition(":")
    return host, port


def test_compose_refers_to_what_it_defines() -> None:
    wanted = {name for service in SERVICES.values() for name in service.get("depends_on", [])}
    assert wanted <= set(SERVICES)


def test_every_service_is_built_here_and_pulled_from_nowhere() -> None:
    for service in SERVICES.values():
        assert service["build"] == {"context": ".", "dockerfile": "Containerfile"}
        assert service["image"] == "pumice"


def test_the_core_is_published_where_the_command_looks_and_nowhere_else() -> None:
    address, port = published("core")
    assert address == DEFAULT_ADDRESS
    assert address.startswith("127.0.0.1:")
    assert f"0.0.0.0:{port}" in SERVICES["core"]["command"]
    assert f"--core=core:{port}" in SERVICES["simulated"]["command"]


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_runs_a_command_that_exists(name: str) -> None:
    command = [*SERVICES[name]["command"], "--help"]
    done = subprocess.run(pumice(*command), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def service(name: str, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A service's own command; a free port of this machine stands for the port of the container."""
    _, published_port = published("core")
    words = [
        word.replace(f":{published_port}", f":{port}").replace("core:", "127.0.0.1:")
        for word in SERVICES[name]["command"]
    ]
    with (folder / f"{name}.log").open("wb") as log:
        process = GUARD.start(pumice(*words), log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(happened: Callable[[], bool], folder: Path, what: str) -> None:
    end = time.monotonic() + 60
    while not happened():
        said = "".join(log.read_text() for log in sorted(folder.glob("*.log")))
        assert time.monotonic() < end, f"still not so after a minute: {what}; they said: {said}"
        time.sleep(0.1)


def test_the_services_start_and_the_host_can_ask_and_they_end_when_asked(tmp_path: Path) -> None:
    (port,) = free_ports(1)

    def ask(*command: str) -> str:
        words = pumice(*command, f"--core=127.0.0.1:{port}")
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout if done.returncode == 0 else ""

    def has_decided() -> bool:
        return "Running" in ask("show", "jobs")

    with (
        service("core", tmp_path, port) as core,
        service("simulated", tmp_path, port) as simulated,
    ):
        until(has_decided, tmp_path, "the core places the simulated cluster's pods")
        assert "node-" in ask("top", "--once")
        for process in (simulated, core):
            process.send_signal(signal.SIGTERM)
            until(lambda: process.poll() is not None, tmp_path, "it ends when asked")  # noqa: B023
    assert (core.returncode, simulated.returncode) == (0, 0)
    assert "interrupted" in (tmp_path / "simulated.log").read_text(encoding="utf-8")
