"""The page about the client library: its examples run, and its tables name what exists."""

import asyncio
import inspect
import re
from pathlib import Path

import pytest

import pumice.client
from pumice.client import AsyncClient, ClientError, ClientSettings
from pumice.client.settings import _DEFAULTS, _variable
from tests.server.running import RunningCore, gang, node, queue

PAGE = (Path(__file__).parents[2] / "docs/reference/client.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: team}
spec:
  minAvailable: 1
  queue: default
  tasks:
  - {replicas: 1, name: worker, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}
"""


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0, "team/train-worker-0 would go to n1"),
        (1, "default Open"),
        (2, "'cpu': 4000"),
    ],
)
async def test_an_example_runs(
    core: RunningCore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    printed: str,
) -> None:
    await core.served([queue(), node("n1"), *gang("waiting", 9)])
    await core.session(1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    text = EXAMPLES[number].replace("127.0.0.1:7461", core.server.address)
    await asyncio.to_thread(exec, compile(text, "example", "exec"), {"__name__": "example"})
    assert printed in capsys.readouterr().out


def test_every_example_is_tested() -> None:
    assert len(EXAMPLES) == 3


def test_every_method_is_on_the_page_with_its_arguments() -> None:
    named = dict(re.findall(r"`(\w+)\(([^)`]*)\)`", section("Methods")))
    common = {"self", "cluster", "timeout_seconds"}
    for name, method in inspect.getmembers(AsyncClient, inspect.isfunction):
        if name.startswith("_") or name == "close":
            continue
        assert name in named
        if "…" not in named[name]:
            arguments = {word.strip(" =") for word in named[name].split(",")} - {""}
            assert arguments == set(inspect.signature(method).parameters) - common | arguments & {
                "cluster"
            }, name


def test_every_setting_and_every_error_is_on_the_page() -> None:
    for name in _DEFAULTS:
        assert f"`{name}`" in section("Settings")
        variable = _variable(name)
        assert variable in section("Settings") or variable in ("PUMICE_TLS_CERT", "PUMICE_TLS_KEY")
    exported = [getattr(pumice.client, name) for name in pumice.client.__all__]
    errors = [e for e in exported if isinstance(e, type) and issubclass(e, ClientError)]
    for error in errors:
        assert f"`{error.__name__}`" in section("Errors")
    assert ClientSettings().retry_seconds == 30
