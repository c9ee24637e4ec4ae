"""The container files name files and commands that exist."""

import importlib.util
import json
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.architecture.tree import REPOSITORY

COMPOSE: dict[str, Any] = yaml.safe_load(
    (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8")
)
SERVICES: dict[str, Any] = COMPOSE["services"]


def instructions() -> list[tuple[str, str]]:
    text = (REPOSITORY / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def test_the_containerfile_uses_known_instructions() -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    assert [word for word, _ in instructions() if word not in known] == []
    assert instructions()[0][0] == "FROM"


def test_the_containerfile_copies_what_is_there() -> None:
    sources = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    roots = {"proto", "server", "adapters", "clients", "bench"}
    assert roots <= set(sources)


def test_the_image_runs_pumice_and_not_as_root() -> None:
    last = dict(instructions())
    assert json.loads(last["ENTRYPOINT"]) == ["pumice"]
    assert last["USER"] not in {"root", "0"}


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
    if importlib.util.find_spec("pumice.cli.main") is None:
        pytest.skip("the pumice command does not exist yet")
    command = [*SERVICES[name]["command"], "--help"]
    done = subprocess.run(
        [sys.executable, "-c", "from pumice.cli.main import main; main()", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
