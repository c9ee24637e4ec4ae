"""The code on the page about plugins runs as it stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pumice.core.configuration import Arguments, read_configuration
from pumice.core.deltas import ClusterObject, DataReported
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, queue

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-plugin.md"
TEXT = PAGE.read_text(encoding="utf-8")
# Of the tutorial: files with their names.
FILES = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', TEXT, re.S | re.M))
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.S | re.M)


def plugins_of(source: str) -> list[type]:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(source, str(PAGE), "exec"), names)
    classes = [v for v in names.values() if isinstance(v, type) and v.__module__ == "page"]
    return [class_ for class_ in classes if not issubclass(class_, Arguments)]


PLUGINS: dict[str, Any] = {
    plugin.name: plugin  # type: ignore[attr-defined]
    for source in BLOCKS
    for plugin in plugins_of(source)
}
QUIET = (
    "--quiet",
    "--no-deps",
    "--no-index",
    "--no-build-isolation",
    "--disable-pip-version-check",
)


def engine_with(name: str, arguments: dict[str, object], *objects: ClusterObject) -> Engine:
    registry = Registry([PLUGINS[name]])
    plugins = [
        {"name": name, "arguments": arguments},
        *({"name": n} for n in ("gang", "predicates")),
    ]
    data = {
        "actions": "enqueue, allocate, backfill, preempt, reclaim",
        "tiers": [{"plugins": plugins}],
    }
    engine = Engine(read_configuration(data, registry.catalog()), registry=registry)
    return fill(engine, queue(), *objects)


def nodes_of(engine: Engine) -> dict[str, str]:
    result = engine.schedule(NOW_NS)
    assert result.faults == ()
    return {decision.name: decision.node for decision in result.decisions}


def test_the_tutorial_makes_a_package_whose_tests_pass_and_which_is_found(tmp_path: Path) -> None:
    for name, content in FILES.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    package, site = tmp_path / "package", tmp_path / "site"

    def run(*command: str | Path, **more: str) -> str:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more}
        done = subprocess.run(
            [sys.executable, *command],
            check=False,
            capture_output=True,
            text=True,
            cwd=package,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # As in the folder of the package: pytest does not need it installed.
    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", PYTHONPATH=str(package))
    assert "3 passed" in told
    run("-m", "pip", "install", *QUIET, "--root-user-action=ignore", "--target", site, package)
    shutil.rmtree(package / "pumice_gpu_keeper")
    program = "from pumice.cli.main import main; main()"
    told = run("-c", program, "conf", "check", "conf.yaml", PYTHONPATH=str(site))
    assert "gpu-keeper" in told
    with pytest.raises(AssertionError, match="gpu-keeper"):
        run("-c", program, "conf", "check", "conf.yaml")


def test_the_last_block_is_a_cluster_with_a_plugin() -> None:
    names: dict[str, Any] = {}
    exec(compile(BLOCKS[-1], str(PAGE), "exec"), names)
    made = names["cluster_with"](PLUGINS["small-first"]).job("a", 2)
    assert len(made.cycle().binds) == 2


def test_the_page_shows_a_plugin_for_every_kind_of_hook() -> None:
    assert list(PLUGINS) == [
        "quiet",
        "maintenance",
        "headroom",
        "small-first",
        "admission-limit",
        "grace-period",
        "large-first",
        "busy-nodes",
    ]


@pytest.mark.parametrize("name", PLUGINS)
def test_every_plugin_of_the_page_takes_part_in_a_session(name: str) -> None:
    assert nodes_of(engine_with(name, {}, node("n1"), *job("j", 2))) == {"j-0": "n1", "j-1": "n1"}


def test_nodes_due_for_service_are_refused_and_those_just_serviced_preferred() -> None:
    engine = engine_with(
        "maintenance",
        {},
        node("n1", labels={"example.com/service": "due"}),
        node("n2"),
        node("n3", labels={"example.com/serviced": "today"}),
        *job("j", 1),
    )
    assert nodes_of(engine) == {"j-0": "n3"}


def test_one_core_of_every_node_stays_free() -> None:
    engine = engine_with("headroom", {}, node("n1", cpu=3), *job("j", 3, minimum=1))
    assert nodes_of(engine) == {"j-0": "n1", "j-1": "n1"}


def test_small_jobs_come_first() -> None:
    engine = engine_with("small-first", {}, node("n1", cpu=2), *job("a", 2), *job("b", 1))
    assert nodes_of(engine) == {"b-0": "n1"}


def test_large_jobs_come_first() -> None:
    engine = engine_with("large-first", {}, node("n1", cpu=2), *job("a", 1), *job("b", 2))
    assert nodes_of(engine) == {"b-0": "n1", "b-1": "n1"}


def test_busy_nodes_take_urgent_jobs_only() -> None:
    jobs = (*job("a", 1, 3), *job("b", 1, 3, queue_name="urgent"))
    engine = engine_with("busy-nodes", {}, queue("urgent"), node("n1"), node("n2"), *jobs)
    engine.apply([DataReported("busy-nodes", "n1", {"cpu": 0.9})])
    assert nodes_of(engine) == {"a-0": "n2", "b-0": "n1"}


def test_only_so_many_jobs_are_let_in() -> None:
    group = pod_group("late", phase=PodGroupPhase.PENDING, min_resources=(("cpu", 1000),))
    engine = engine_with(
        "admission-limit",
        {"admission-limit.most": 1},
        node("n1"),
        *job("first", 1),
        group,
        pod("late-0", "late"),
    )
    result = engine.schedule(NOW_NS)
    assert [d.name for d in result.decisions] == ["first-0"]
    assert {w.job: w.reasons[0].author for w in result.waits} == {"ns/late": "admission-limit"}
