"""schedule, explain, top, watch and completion, as a user runs them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import Ended, process, pumice
from tests.server import running
from tests.server.conftest import core, socket_folder
from tests.server.running import RunningCore

__all__ = ["core", "socket_folder"]

Run = Callable[..., Awaitable[Ended]]
CONTAINER = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}


def job(size: int, name: str = "train") -> dict[str, Any]:
    task = {"replicas": size, "name": "worker", "template": {"spec": {"containers": [CONTAINER]}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"minAvailable": size, "tasks": [task]},
    }


def written(folder: Path, *documents: dict[str, Any]) -> Path:
    file = folder / "manifest.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return file


@pytest.fixture
async def ask(
    core: RunningCore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs a command beside the core, which its environment names."""
    monkeypatch.setenv("PUMICE_ADDRESS", core.server.address)
    monkeypatch.setenv("PUMICE_RETRY", "0")

    async def call(*arguments: object) -> Ended:
        return await asyncio.to_thread(pumice, capsys, *arguments)

    return call


async def test_a_manifest_is_tried_on_the_live_cluster(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    adapter = await core.served([running.queue(), running.node("n1")])
    ended = await ask("schedule", "-f", written(tmp_path, job(2)))
    assert ended.code == 0, ended
    assert "team/train" in ended.out
    assert "n1 x2" in ended.out
    assert f"as of seq {adapter.seq}" in ended.out


async def test_a_manifest_that_would_wait_says_why(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])
    ended = await ask("schedule", "-f", written(tmp_path, job(9)), "-o", "yaml")
    assert ended.code == 1
    told = yaml.safe_load(ended.out)
    assert told["binds"] == []
    (waiting,) = told["jobs"]
    assert (waiting["job"], waiting["verdict"]) == ("team/train", "never fits")
    shown = await ask("schedule", written(tmp_path, job(9)))
    assert "never fits" in shown.out


def test_files_can_be_all_there_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path, NODE, job(2))
    ended = pumice(capsys, "schedule", "--inline", "-f", file, "--json")
    assert ended.code == 0
    assert [bind["node"] for bind in json.loads(ended.out)["binds"]] == ["n1", "n1"]


def test_standard_input_is_a_manifest_too() -> None:
    text = yaml.safe_dump_all([NODE, job(1)])
    ended = process("schedule", "--inline", "-f", "-", stdin=text)
    assert (ended.code, ended.err) == (0, "")
    assert "\x1b" not in ended.out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "invalid YAML"),
        ("a: b", "apiVersion"),
        ("", "contains no objects"),
        (yaml.safe_dump(job(-1)), "spec.tasks[0].replicas"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    ended = pumice(capsys, "schedule", "--inline", "-f", file)
    assert ended.code == 2
    (line,) = [line for line in ended.err.splitlines() if "warning: " not in line]
    assert problem in line


async def test_a_misspelt_queue_comes_with_the_one_that_was_meant(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue("research"), running.node("n1")])
    misspelt = job(1)
    misspelt["spec"]["queue"] = "reserch"
    ended = await ask("schedule", "-f", written(tmp_path, misspelt))
    assert ended.code == 1
    assert "queue reserch does not exist (there is research)" in ended.out


async def test_a_configuration_that_cannot_be_tried_is_said_once_with_its_line(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])
    conf = tmp_path / "conf.yaml"
    conf.write_text('actions: "allocat"\ntiers:\n- plugins:\n  - name: gang\n')
    ended = await ask("schedule", "-f", written(tmp_path, job(1)), "--conf", conf)
    assert ended.code == 2
    assert ended.err.count("unknown action 'allocat'; did you mean 'allocate'?") == 1
    assert "configuration line 1: actions: " in ended.err


async def test_the_figures_of_the_session_are_told(
    core: RunningCore, ask: Run, tmp_path: Path
) -> None:
    await core.served([running.queue(), running.node("n1")])
    file = written(tmp_path, job(2))
    (figures,) = json.loads((await ask("schedule", "-f", file, "--json")).out)["sessions"]
    assert (figures["bind_count"], figures["evict_count"], figures["wait_count"]) == (2, 0, 0)
    assert figures["work"]["tasks_tried"] == 2
    assert "1 session, " in (await ask("schedule", "-f", file)).out


async def test_a_waiting_job_is_explained(core: RunningCore, ask: Run) -> None:
    await core.served([running.queue(), running.node("n1"), *running.gang("job", 9)])
    await core.session(1)
    ended = await ask("explain", "job", "team/job")
    assert ended.code == 0, ended
    assert ended.out.startswith("team/job waits")
    assert "held back" in ended.out
    assert "nearest nodes" in ended.out
    told = json.loads((await ask("explain", "pod", "team/job-0", "--json")).out)
    assert told["pod"] == "job-0"


async def test_unknown_names_are_answered_with_near_ones(core: RunningCore, ask: Run) -> None:
    await core.served([running.queue(), *running.gang("training", 1)], cluster="prod")
    ended = await ask("explain", "job", "team/trainign")
    assert ended.code == 2
    assert "did you mean team/training?" in ended.err
    ended = await ask("top", "--cluster", "prd")
    assert ended.code == 2
    assert "did you mean prod?" in ended.err


async def test_top_shows_queues_below_their_parents_and_full_nodes(
    core: RunningCore, ask: Run
) -> None:
    queues = [running.queue("root"), running.queue("kid", parent="root"), running.queue()]
    adapter = await core.served([*queues, running.node("n1"), *running.gang("job", 4)])
    await adapter.decisions()
    ended = await ask("top")
    assert ended.code == 0, ended
    assert "  kid" in ended.out
    assert "100%" in ended.out
    told = json.loads((await ask("top", "--json")).out)
    assert [node["name"] for node in told["nodes"]] == ["n1"]


async def test_watch_tells_what_sessions_decide(core: RunningCore, ask: Run) -> None:
    adapter = await core.served([running.queue(), running.node("n1"), *running.gang("one", 1)])
    await adapter.decisions()
    await adapter.tell(*running.gang("two", 2))
    core.clock.advance(1)
    await adapter.decisions()
    ended = await ask("watch", "--after", "1", "--count", "1")
    assert ended.code == 0, ended
    assert "bind  team/two: 2 pods to n1 x2" in ended.out
    told = json.loads((await ask("watch", "--after", "1", "--count", "1", "--json")).out)
    assert (told["summary"]["number"], len(told["binds"])) == (2, 2)


def test_without_a_core_the_line_says_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUMICE_ATTEMPTS", "1")
    for command in (("top",), ("watch",), ("explain", "job", "a/b")):
        ended = pumice(capsys, *command, "--core", f"unix:{tmp_path}/none")
        assert ended.code == 1
        assert "start one with 'pumice core'" in ended.err


def test_a_bad_setting_of_the_environment_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUMICE_TIMEOUT", "soon")
    ended = pumice(capsys, "top")
    assert ended.code == 2
    assert "timeout_seconds" in ended.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    ended = pumice(capsys, "completion", shell)
    assert ended.code == 0
    assert "_PUMICE_COMPLETE" in ended.out


def test_a_shell_is_given_commands_to_choose_from() -> None:
    ended = process(_PUMICE_COMPLETE="bash_complete", COMP_WORDS="pumice expl", COMP_CWORD="1")
    assert "plain,explain" in ended.out


def test_asking_a_core_does_not_load_the_engine() -> None:
    code = "import sys, pumice.cli.queries.schedule as s; print('pumice.core' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("team/job",), "add the kind: 'pumice explain job team/job' or 'pumice explain pod te"),
        (("job/job",), "write 'pumice explain job NAMESPACE/job'"),
        (("jbo", "team/job"), "did you mean 'job'?"),
        (("job", "a/b/c"), "invalid name 'a/b/c'; allowed: NAMESPACE/NAME"),
        (("job", "team/"), "invalid name 'team/'"),
        (("pod", ""), "invalid name ''"),
    ],
)
def test_a_question_that_cannot_be_asked_comes_with_the_way_to_ask_it(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    ended = pumice(capsys, "explain", *words)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err


async def test_a_pod_taken_for_a_job_is_told_apart(core: RunningCore, ask: Run) -> None:
    await core.served([running.queue(), *running.gang("train", 1)])
    await core.session(1)
    ended = await ask("explain", "job", "team/train-0")
    assert (ended.code, "team/train-0 is a pod, not a job" in ended.err) == (2, True)
    ended = await ask("explain", "pod", "team/train")
    assert "team/train is a job, not a pod: 'pumice explain job team/train'" in ended.err


async def test_a_row_is_a_line_for_pipes(core: RunningCore, ask: Run) -> None:
    name = "a-job-with-a-name-that-is-rather-long-for-a-column"
    await core.served([running.queue(), running.node("n1"), *running.gang(name, 9)])
    await core.session(1)
    lines = (await ask("show", "jobs")).out.splitlines()
    assert len(lines) == 3
    assert f"team/{name}" in lines[2]
    assert lines[2].endswith("tasks fit")


def test_a_file_may_be_named_without_its_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended = pumice(capsys, "schedule", "--inline", written(tmp_path, NODE, job(1)))
    assert ended.code == 0
    ended = pumice(capsys, "schedule", "--inline")
    assert ended.code == 2
    assert "add one with -f FILE" in ended.err


async def test_a_shell_is_given_names_that_there_are(core: RunningCore, tmp_path: Path) -> None:
    await core.served([running.queue(), running.queue("red"), *running.gang("train", 1)])

    async def offered(words: str, count: int, address: str = core.server.address) -> list[str]:
        variables = {"COMP_WORDS": words, "COMP_CWORD": str(count), "PUMICE_ADDRESS": address}
        ended = await asyncio.to_thread(
            lambda: process(_PUMICE_COMPLETE="bash_complete", **variables)
        )
        assert ended.err == ""
        return [line.partition(",")[2] for line in ended.out.splitlines() if line]

    assert await offered("pumice explain job te", 3) == ["team/train"]
    assert await offered("pumice show jobs --queue ", 4) == ["default", "red"]
    assert await offered("pumice explain job te", 3, f"unix:{tmp_path}/none") == []


async def test_a_core_without_a_cluster_says_how_to_connect_one(
    core: RunningCore, ask: Run
) -> None:
    ended = await ask("show", "queues")
    assert ended.code == 2
    assert "no cluster is connected; connect a cluster with 'pumice adapter'" in ended.err


async def test_forget_clears_the_epoch_of_a_cluster(core: RunningCore, ask: Run) -> None:
    adapter = await core.served([running.queue()], epoch=7)
    connected = await ask("forget", "c1")
    assert connected.code != 0
    assert "adapter" in connected.err
    forgotten = await ask("forget", "c1", "--force")
    assert forgotten.out == "c1: removed; its highest epoch was 7\n"
    away = await adapter.next("go_away")
    assert "forget" in away.message
    await core.served([running.queue()], epoch=1)
