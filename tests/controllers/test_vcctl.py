"""Ages, tables, states of pods, files and flags of the commands for objects."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pumice.controllers.resources import JOB_FLOWS, JOBS
from pumice.controllers.vcctl.access import BadInputError
from pumice.controllers.vcctl.files import objects_of, one_of
from pumice.controllers.vcctl.job_commands import amounts_of, job_body, job_group, words_of
from pumice.controllers.vcctl.job_view import described, shown_amount, shown_events
from pumice.controllers.vcctl.pod_status import ready_of, restarts_of, status_of
from pumice.controllers.vcctl.tables import age, local_time, shown_duration

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"),
        (10 * MINUTE + 30, "10m"), (3 * HOUR, "3h"), (3 * HOUR + 5 * MINUTE, "3h5m"),
        (9 * HOUR + 59 * MINUTE, "9h"), (2 * DAY, "2d"), (2 * DAY + 5 * HOUR, "2d5h"),
        (9 * DAY + HOUR, "9d"), (730 * DAY, "2y"), (740 * DAY, "2y10d"), (9 * 365 * DAY, "9y"),
    ],
)  # fmt: skip
def test_ages_are_those_of_kubectl(seconds: int, text: str) -> None:
    assert shown_duration(seconds) == text


def test_an_age_needs_a_time() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age("2026-01-01T00:00:00Z", now) == "60s"
    assert age(None) == age("") == "<unknown>"


def test_a_command_is_split_as_a_shell_does() -> None:
    values: dict[str, Any] = {
        "name": "a", "image": "i", "min_available": 1, "replicas": 1, "requests": "", "limits": "",
        "scheduler": "volcano",
    }  # fmt: skip

    def container(**more: Any) -> dict[str, Any]:
        body = job_body("ns", **values, **more)
        found: dict[str, Any] = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        return found

    assert container(command="sh -c 'sleep 1; echo \"a b\"'")["command"] == [
        "sh", "-c", 'sleep 1; echo "a b"',
    ]  # fmt: skip
    assert "command" not in container()
    with pytest.raises(click.UsageError, match="cannot be split into words"):
        words_of("--command", "echo 'a")
    ended = CliRunner().invoke(job_group, ["run", "-f", "a.yaml", "-c", "sleep 1"])
    assert ended.exit_code == 2
    assert "--command has no effect with --filename" in ended.output


@pytest.mark.parametrize("text", ["cpu", "=1", "cpu=", "cpu=many", "cpu=1=2"])
def test_a_wrong_amount_is_named(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"--limits: .*allowed: RESOURCE=AMOUNT"):
        amounts_of("--limits", text)


def test_amounts() -> None:
    assert amounts_of("--requests", "cpu=1,example.com/gpu=2") == {
        "cpu": "1",
        "example.com/gpu": "2",
    }
    assert amounts_of("--requests", "") == {}


def pod(*containers: Any, **parts: Any) -> dict[str, Any]:
    statuses = [{"name": f"c{index}", **one} for index, one in enumerate(containers)]
    return {
        "metadata": parts.get("metadata", {}),
        "spec": {
            "containers": [{"name": one["name"]} for one in statuses],
            "initContainers": parts.get("init", []),
        },
        "status": {
            "phase": parts.get("phase", "Running"),
            "containerStatuses": statuses,
            "initContainerStatuses": parts.get("init_statuses", []),
            "conditions": parts.get("conditions", []),
        },
    }


RUNS = {"ready": True, "state": {"running": {}}}
ENDED = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
STATES = {
    "Running": pod(RUNS),
    "Pending": pod(phase="Pending"),
    "Terminating": pod(RUNS, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    "CrashLoopBackOff": pod({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
    "OOMKilled": pod({"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}),
    "Signal:9": pod({"state": {"terminated": {"signal": 9, "exitCode": 137}}}),
    "ExitCode:3": pod({"state": {"terminated": {"exitCode": 3}}}),
    "Completed": pod(ENDED, phase="Succeeded"),
    "NotReady": pod(ENDED, RUNS),
    "SchedulingGated": pod(
        phase="Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]
    ),
    "Init:0/1": pod(init=[{"name": "i"}], init_statuses=[{"name": "i", "state": {"running": {}}}]),
    "Init:Error": pod(
        init=[{"name": "i"}],
        init_statuses=[{"name": "i", "state": {"terminated": {"reason": "Error", "exitCode": 1}}}],
    ),
}


@pytest.mark.parametrize("text", STATES)
def test_states_of_pods(text: str) -> None:
    assert status_of(STATES[text]) == text


def test_ready_containers_and_restarts() -> None:
    sidecar = {"name": "i", "restartPolicy": "Always"}
    one = pod(
        {**RUNS, "restartCount": 2},
        {},
        init=[sidecar],
        init_statuses=[{"name": "i", "ready": True, "started": True, "state": {"running": {}}}],
    )
    assert (ready_of(one), restarts_of(one), status_of(one)) == ("2/3", "2", "Running")
    ended = {"lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}}
    assert restarts_of(pod({**RUNS, **ended, "restartCount": 1})).startswith("1 (")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no Job in this file"),
        ("kind: Pod\nmetadata: {name: a}", "kind is Pod; allowed: Job"),
        ("kind: Job", "metadata.name is missing"),
        ("kind: [", "invalid YAML"),
        ("kind: Job\nmetadata: {name: a}\n---\nkind: Job\nmetadata: {name: b}", "2 objects"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(BadInputError, match=r"job\.yaml") as raised:
        one_of(str(path), JOBS)
    assert problem in raised.value.message


def test_a_text_with_dashes_is_not_split(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("kind: JobFlow\nmetadata: {name: a, annotations: {b: 'x---y'}}\n---\n")
    (found,) = objects_of(str(path), JOB_FLOWS)
    assert found["metadata"]["annotations"] == {"b": "x---y"}


def test_a_job_of_kubernetes_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n")
    with pytest.raises(BadInputError, match=r"apiVersion is batch/v1; allowed: batch.volcano.sh"):
        one_of(str(path), JOBS)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("1000m", "1"), ("1500m", "1500m"), ("0.5", "500m"), (2, "2"), ("1000", "1k"), ("0", "0"),
        ("100Mi", "100Mi"), ("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("0.5Ki", "512"), ("?", "?"),
    ],
)  # fmt: skip
def test_amounts_are_written_as_kubernetes_does(amount: str | int, shown: str) -> None:
    assert shown_amount(amount) == shown


def test_times_have_the_form_of_vcctl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert local_time("2026-01-01T20:00:00Z") == "2026-01-02 04:00:00 +0800 CST"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert local_time(None) == "0001-01-01 00:00:00 +0000 UTC"


def test_the_view_of_a_task_has_the_lines_of_vcctl() -> None:
    resources = {"requests": {"cpu": "1000m", "memory": "1024Mi"}}
    template = {
        "metadata": {"annotations": {"cri.cci.io/container-type": "secure"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }
    spec = {"plugins": {"svc": [], "env": ["-a", "-b"]}, "tasks": [{"template": template}]}
    lines = list(described({"metadata": {"name": "a"}, "spec": spec}))
    start = lines.index("  Plugins:")
    assert lines[start + 1 : start + 4] == ["    Env:\t[-a -b]", "    Ssh:\t[]", "    Svc:\t[]"]
    start = lines.index("      Metadata:")
    assert lines[start + 1 : start + 7] == [
        "        Annotations:",
        "          Cri . Cci . Io / Container - Type:          \tsecure",
        "          Kubernetes . Io / Availablezone:            \t",
        "          Network . Alpha . Kubernetes . Io / Network:\t",
        "        Creation Timestamp:\t0001-01-01 00:00:00 +0000 UTC",
        "      Spec:",
    ]
    start = lines.index("            Requests:")
    assert lines[start + 1 : start + 4] == [
        "              Cpu:   \t1",
        "              Memory:\t1Gi",
        "            Working Dir:\t",
    ]


def test_the_view_of_a_job_without_anything() -> None:
    lines = list(described({"metadata": {"name": "a"}}))
    assert lines[0] == "Name:       \ta"
    assert "Labels:     \t<none>" in lines
    assert lines[-1] == "    Phase:\t"
    assert list(shown_events([])) == ["Events: \t<none>"]
