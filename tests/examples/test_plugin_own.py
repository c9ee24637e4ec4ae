"""The example package of the documentation: installed as a user would, found, used and tested."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pumice.core.configuration import read_configuration
from pumice.core.engine import Engine
from pumice.server.plugins import discover
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "plugin-own"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed a copy of the package; no network is needed."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    target = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    quiet = [
        "--disable-pip-version-check",
        "--no-warn-script-location",
        "--root-user-action=ignore",
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *quiet, "--target", target, source],
        check=True,
    )
    return target


@pytest.fixture
def on_path(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(installed))
    yield
    sys.modules.pop("pumice_zone_affinity", None)


@pytest.mark.usefixtures("on_path")
def test_the_package_is_found_and_its_plugin_decides() -> None:
    found = discover()
    assert [plugin.name for plugin in found.plugins] == ["zone-affinity"]
    registry = found.registry()
    plugins = [{"name": "gang"}, {"name": "nodeorder"}, {"name": "zone-affinity"}]
    plugins[2]["arguments"] = {"zone-affinity.weight": 10}  # type: ignore[assignment]
    data = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
    engine = Engine(read_configuration(data, registry.catalog()), registry=registry)
    fill(
        engine,
        node("a1", labels={ZONE: "a"}),
        node("b1", labels={ZONE: "b"}),
        node("b2", labels={ZONE: "b"}),
        queue(),
        pod_group("job"),
        pod("job-0", "job", on="b1"),
        pod("job-1", "job"),
    )
    result = engine.schedule(NOW_NS)
    assert result.faults == ()
    assert [decision.node for decision in result.decisions] == ["b2"]


def test_the_tests_of_the_package_pass(installed: Path, tmp_path: Path) -> None:
    paths = [str(installed), *(path for path in sys.path if path)]
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={tmp_path}"]
    result = subprocess.run(
        [*command, "-p", "no:cacheprovider", EXAMPLE / "tests"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "5 passed" in result.stdout
