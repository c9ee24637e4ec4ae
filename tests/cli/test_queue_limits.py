"""A queue's limit in the answers of ``pumice schedule`` and ``pumice simulate``."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import pumice
from tests.cli.test_queries import CONTAINER, NODE, written

CAPPED = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "default"},
    "spec": {"weight": 1, "capability": {"cpu": "3"}},
}


def test_a_queues_limit_is_told_with_the_resource_and_the_numbers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In schedule and in simulate, as in explain."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"minMember": 4, "queue": "default", "minResources": {"cpu": "4"}},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"train-{number}",
                "namespace": "team",
                "annotations": {"scheduling.k8s.io/group-name": "train"},
            },
            "spec": {"schedulerName": "volcano", "containers": [CONTAINER]},
        }
        for number in range(4)
    ]
    file = written(tmp_path, NODE, CAPPED, group, *pods)
    limit = "above the queue's limit (cpu of queue default: 4 asked, 0 of 3 used)"
    sentence = (
        "queue default may have 3 cpu, of which 0 cpu is taken or promised, and it asks for 4"
    )
    assert sentence in " ".join(pumice(capsys, "schedule", "--inline", file).out.split())
    assert limit in " ".join(pumice(capsys, "simulate", file).out.split())
    shown = json.loads(pumice(capsys, "simulate", file, "--json").out)
    (reason, *_) = shown["runs"][0]["cycles"][0]["waits"][0]["reasons"]
    assert limit in reason["text"]
    without_group_minimum = {**group, "spec": {"minMember": 4, "queue": "default"}}
    file = written(tmp_path, NODE, CAPPED, without_group_minimum, *pods)
    sentence = "queue default may have 3 cpu, of which 3 cpu is taken, and train-3 asks for 1 cpu"
    assert sentence in " ".join(pumice(capsys, "schedule", "--inline", file).out.split())
