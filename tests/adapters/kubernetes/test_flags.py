"""Flags: Volcano's, by the same names, and what they come to."""

import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pumice.adapters.kubernetes.commands import kubernetes_command
from pumice.adapters.kubernetes.flags import (
    GATES,
    UNUSED_VARIABLES,
    WITHOUT_EFFECT,
    adapter_flags,
)
from pumice.adapters.kubernetes.settings import AdapterSettings, settings_from
from pumice.adapters.kubernetes.supervision import PROGRAM
from pumice.v1.configuration_pb2 import SHARDING_MODE_HARD
from pumice.v1.object_pb2 import KIND_NODE_SHARD, KIND_PRIORITY_CLASS, KIND_REPLICA_SET


def settings(*arguments: str, **environment: str) -> AdapterSettings:
    found: list[dict[str, Any]] = []

    @click.command()
    @adapter_flags
    def command(**values: Any) -> None:
        found.append(values)

    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return settings_from(found[0], environment)


def test_the_defaults_are_volcanos() -> None:
    made = settings()
    assert made.qps == made.burst == 2000
    assert made.world.selection.scheduler_names == ("volcano",)
    assert made.world.default_queue == "default"
    assert made.lease is not None
    assert (made.lease.namespace, made.lease.name) == ("volcano-system", "volcano")
    assert made.lease.duration_seconds == 15
    assert made.world.configuration.schedule_period.seconds == 1
    assert made.world.unwatched == {KIND_NODE_SHARD}
    assert made.remarks == ()


def test_a_manifest_of_volcano_is_understood() -> None:
    made = settings(
        "--logtostderr",
        "--scheduler-conf=" + __file__,
        "--scheduler-name=one",
        "--scheduler-name=two",
        "--enable-healthz=true",
        "--enable-metrics",
        "--leader-elect=false",
        "--kube-api-qps=50",
        "--schedule-period=500ms",
        "--node-selector=a:b,c:d",
        "--node-selector=e:f",
        "--percentage-nodes-to-find=10",
        "--feature-gates=WorkLoadSupport=false,Other=true",
        "--priority-class=false",
        "--scheduler-sharding-mode=none",
        "-v=3",
    )
    assert made.lease is None
    assert made.world.selection.scheduler_names == ("one", "two")
    assert made.world.selection.node_labels == (("a", "b"), ("c", "d"), ("e", "f"))
    assert made.world.component == "volcano"
    assert made.metrics_address == ":8080"
    assert made.health_address == ":11251"
    assert made.world.configuration.schedule_period.nanos == 500_000_000
    assert {KIND_PRIORITY_CLASS, KIND_REPLICA_SET} <= made.world.unwatched
    assert [remark.split()[0] for remark in made.remarks] == [
        "--percentage-nodes-to-find",
        "--logtostderr",
        "--feature-gates:",
    ]


@pytest.mark.parametrize("flag", WITHOUT_EFFECT)
def test_flags_without_effect_say_so(flag: str) -> None:
    (remark,) = settings(f"{flag}=1").remarks
    assert remark.startswith(f"{flag} has no effect: ")


def test_gates_and_variables_without_effect_say_so() -> None:
    gates = "SchedulingGatesQueueAdmission=false,VolcanoJobSupport=false,PriorityClass=true"
    made = settings(f"--feature-gates={gates}", BATCH_BIND_NUM="2")
    assert made.remarks == (
        "--feature-gates: VolcanoJobSupport has no effect in this scheduler",
        "the environment variable BATCH_BIND_NUM has no effect",
    )


def test_the_page_about_compatibility_lists_flags_without_effect() -> None:
    page = (Path(__file__).parents[3] / "docs/compatibility.md").read_text()
    names = [*WITHOUT_EFFECT, *GATES, *UNUSED_VARIABLES]
    assert [name for name in names if name not in page] == []


def test_every_visible_flag_has_a_help_text() -> None:
    bare = [
        option.opts[0]
        for option in kubernetes_command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert not bare


@pytest.mark.parametrize(("gates", "on"), [("AllAlpha=true", True), ("AllAlpha=false", False)])
def test_all_gates_at_once(gates: str, on: bool) -> None:
    made = settings(f"--feature-gates={gates}")
    assert dict(made.world.configuration.feature_gates) == {"SchedulingGatesQueueAdmission": on}
    assert (KIND_PRIORITY_CLASS in made.world.unwatched) is not on
    named = settings(f"--feature-gates={gates},SchedulingGatesQueueAdmission=false")
    assert not named.world.configuration.feature_gates["SchedulingGatesQueueAdmission"]


def test_a_scheduler_with_a_node_shard_has_a_lease_and_a_cluster_of_its_own() -> None:
    made = settings("--scheduler-sharding-mode=hard", "--scheduler-sharding-name=gpu")
    assert made.runtime.cluster == "kubernetes-gpu"
    assert made.lease is not None
    assert made.lease.name == "volcano-gpu"
    assert made.kept_configuration == ("volcano-system", "volcano-gpu")
    assert made.world.configuration.sharding_mode == SHARDING_MODE_HARD
    assert made.world.configuration.sharding_name == "gpu"
    assert KIND_NODE_SHARD not in made.world.unwatched
    assert KIND_NODE_SHARD in settings().world.unwatched


def test_one_of_several_schedulers_is_a_cluster_of_its_own() -> None:
    made = settings(
        MULTI_SCHEDULER_ENABLE="true", SCHEDULER_POD_NAME="volcano-1", SCHEDULER_NUM="3"
    )
    assert made.runtime.cluster == "kubernetes-volcano-1"
    assert made.lease is not None
    assert made.lease.name == "volcano-volcano-1"
    assert made.world.selection.shard is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--node-selector", "x"], "key:value"),
        (["--feature-gates", "x"], "Name=true"),
        (["--schedule-period", "soon"], "duration"),
        (["--leader-elect=perhaps"], "neither true nor false"),
        (["--leader-elect-lease-duration", "1s"], "longer"),
        (["--scheduler-configmap", "x"], "namespace/name"),
        (["--core", "example.com:1"], "another machine"),
    ],
)
def test_bad_flags_are_named(arguments: list[str], said: str) -> None:
    given = ["--core", "unix:/nowhere", *arguments]
    result = CliRunner().invoke(kubernetes_command, given)
    assert result.exit_code == 2
    assert said in result.output


def test_no_kubeconfig_ends_with_code_two(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    arguments = ["--core", "unix:/nowhere", "--kubeconfig", none]
    done = subprocess.run(
        [*PROGRAM, "adapter", "kubernetes", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == f"pumice: --kubeconfig {none}: no such file\n"
