"""The page about the client library: its examples run, and its tables are those of the code."""

import asyncio
import inspect
import re
from pathlib import Path

import pytest

from pumice.client import AsyncClient, ClientError, ClientSettings, JobVerdict
from pumice.client.errors import ErrorDetails
from pumice.client.retries import is_retryable
from pumice.client.settings import _DEFAULTS, _variable
from tests import client_page
from tests.server.running import RunningCore, gang, node, queue

PAGE = client_page.PAGE.read_text(encoding="utf-8")
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
PRINTED = [
    (
        "team/train placed - team/train would be placed: its pod on n1.",
        "team/train-worker-0 would go to n1",
    ),
    ("no node is large enough: cpu: 64 wanted, 4 free of 4 (largest node n1)",),
    ("team/train ", "not found; similar names: ('team/trains',)"),
    ("default Open", "team/waiting Inqueue"),
    ("'cpu': 4000",),
]


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


async def run(text: str, address: str) -> None:
    text = text.replace("127.0.0.1:7461", address)
    await asyncio.to_thread(exec, compile(text, "example", "exec"), {"__name__": "example"})


async def test_every_example_runs(
    core: RunningCore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await core.served([queue(), node("n1"), *gang("waiting", 9), *gang("trains", 1)])
    await core.session(1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    assert len(EXAMPLES) == len(PRINTED)
    for text, printed in zip(EXAMPLES, PRINTED, strict=True):
        await run(text, core.server.address)
        said = capsys.readouterr().out
        for line in printed:
            assert line in said


@pytest.mark.parametrize("part", client_page.PARTS)
def test_what_follows_from_the_code_is_as_the_code_has_it(part: str) -> None:
    assert client_page.generated(part) in PAGE, "run python -m tests.client_page"


def test_every_method_takes_its_arguments_by_name() -> None:
    for name, method in client_page.methods():
        parameters = list(inspect.signature(method).parameters.values())
        assert all(each.kind is each.KEYWORD_ONLY for each in parameters[2:]), name
        lacking = {"cluster", "timeout_seconds"} - {each.name for each in parameters}
        allowed = {"check_config", "schedule_inline", "list_clusters", "forget_cluster"}
        assert lacking <= ({"cluster"} if name in allowed else set()) | (
            {"timeout_seconds"} if name == "record" else set()
        )


def test_every_verdict_is_explained() -> None:
    rows = re.findall(r"^\| `([a-z ]+)` \| \w", section("One call for a frontend"), re.M)
    assert sorted(rows) == sorted(JobVerdict)


def test_every_setting_and_every_error_is_on_the_page() -> None:
    for name in _DEFAULTS:
        assert f"`{name}`" in section("Settings")
        variable = _variable(name)
        assert variable in section("Settings") or variable in ("PUMICE_TLS_CERT", "PUMICE_TLS_KEY")
    for error in client_page.exported(ClientError):
        assert f"`{error.__name__}`" in section("Errors")
        assert error("").advice
        assert error("").nearest_names == ()
    assert ClientSettings().retry_seconds == 30
    assert ClientSettings().timeout_seconds == 30


def test_the_errors_that_are_retried_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", section("Errors"), re.M)
    classes = {each.__name__: each for each in client_page.exported(ClientError)}
    for name, cause, retried in rows:
        busy = 0.1 if "too many requests" in cause else 0.0
        error = classes[name]("", ErrorDetails(retry_after_seconds=busy))
        assert is_retryable(error) is (retried != "no"), name


def test_errors_that_are_also_values_errors_are_named() -> None:
    for name in re.findall(r"^\| `(\w+)` \|.*also a `ValueError`", section("Errors"), re.M):
        (found,) = [e for e in client_page.exported(ClientError) if e.__name__ == name]
        assert issubclass(found, ValueError)


def test_both_clients_are_documented_once() -> None:
    for name, method in client_page.methods():
        assert inspect.getdoc(getattr(AsyncClient, name))
        assert inspect.getdoc(method)
