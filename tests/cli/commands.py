"""The command as a user runs it, in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from pumice.cli.main import run

CORPUS = "tests/conformance"
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def pumice(
    capsys: pytest.CaptureFixture[str], *arguments: object, program: str = "pumice"
) -> Ended:
    """Runs pumice by this name."""
    code = run([str(argument) for argument in arguments], program)
    said = capsys.readouterr()
    return Ended(code, said.out, said.err)


def process(*arguments: object, stdin: str = "", **environment: str) -> Ended:
    done = subprocess.run(
        [sys.executable, "-c", "from pumice.cli.main import main; main()", *map(str, arguments)],
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}"},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def queue(name: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"queue-{name}"},
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }


def job(name: str, tasks: int = 1, cpu: str = "1") -> list[dict[str, Any]]:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team", "uid": f"group-{name}"},
        "spec": {"minMember": tasks, "queue": "default"},
    }
    return [group, *(pod(name, index, cpu) for index in range(tasks))]


def pod(job_name: str, index: int, cpu: str) -> dict[str, Any]:
    name = f"{job_name}-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"pod-{name}",
            "annotations": {"scheduling.k8s.io/group-name": job_name},
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
    }


def scenario(*objects: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "family": "tests",
        "cycles": 1,
        "conf": CONF,
        "objects": objects,
    } | more


def outcome(binds: dict[str, str], **phases: str) -> dict[str, Any]:
    groups = {f"team/{name}": phase for name, phase in phases.items()}
    return {"binds": binds, "evicts": [], "podgroups": groups}
