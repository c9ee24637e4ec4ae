"""The compose file refers to what exists, and its services work together."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from pumice.client.inspection import CoreAwayError, InspectionClient
from tests.architecture.tree import REPOSITORY

COMPOSE: dict[str, Any] = yaml.safe_load(
    (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8")
)
SERVICES: dict[str, Any] = COMPOSE["services"]


def pumice(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pumice.cli", *arguments]


def test_compose_refers_to_what_it_defines() -> None:
    volumes = {
        volume.split(":")[0] for service in SERVICES.values() for volume in service["volumes"]
    }
    assert volumes <= set(COMPOSE["volumes"])
    assert {name for service in SERVICES.values() for name in service.get("depends_on", [])} <= set(
        SERVICES
    )
    builds = [service["build"] for service in SERVICES.values() if "build" in service]
    assert [build["dockerfile"] for build in builds] == ["Containerfile"]


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_runs_a_command_that_exists(name: str) -> None:
    command = [*SERVICES[name]["command"], "--help"]
    done = subprocess.run(pumice(*command), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def service(name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A service's own command, with a folder of this machine for the volume it shares."""
    volumes = [volume.split(":")[1] for volume in SERVICES[name]["volumes"]]
    words = list(SERVICES[name]["command"])
    for place in volumes:
        words = [word.replace(place, str(folder)) for word in words]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(pumice(*words), stdout=log, stderr=log)
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


def test_the_services_start_find_each_other_and_end_when_asked() -> None:
    # Paths of sockets are short; pytest's own folders are not.
    with TemporaryDirectory(prefix="pumice") as name, service("core", Path(name)) as core:
        folder = Path(name)
        client = InspectionClient(f"unix:{folder}/core.sock")

        def has_decided() -> bool:
            try:
                return any(session.bind_count for session in client.sessions().sessions)
            except CoreAwayError:
                return False

        with service("simulated", folder) as simulated:
            until(has_decided, folder, "the core places the simulated cluster's pods")
            for process in (simulated, core):
                process.send_signal(signal.SIGTERM)
                until(lambda: process.poll() is not None, folder, "it ends when asked")  # noqa: B023
        client.close()
        assert (core.returncode, simulated.returncode) == (0, 0)
        assert "interrupted" in (folder / "simulated.log").read_text(encoding="utf-8")
