"""Plugins for tensorflow, mpi and pytorch: the environment that each framework expects."""

import json
from typing import Any, Final

from pumice.controllers.job.plugins.arguments import parse
from pumice.controllers.job.plugins.context import (
    JobObject,
    PodContext,
    containers,
    host_indexes,
    host_of,
    open_port,
)
from pumice.controllers.job.types import Job, JobSpec
from pumice.controllers.runtime.objects import Manifest

_ROLES: Final = ("ps", "worker", "chief", "evaluator")
_WAITS: Final = "wait-for-master"


class TensorflowPlugin:
    """Sets TF_CONFIG."""

    def __init__(self, arguments: list[str]) -> None:
        defaults: dict[str, str | int | bool] = {role: role for role in _ROLES}
        given = parse(arguments, {**defaults, "port": 2222})
        self.problem, self._values = given.problem, given.values

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        return []

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        tasks = context.spec.tasks or []
        if len(tasks) == 1 and tasks[0].replicas == 1:
            # One pod alone is not distributed.
            return
        cluster: dict[str, Any] = {}
        for role in _ROLES:
            task = context.task_of(str(self._values[role]))
            if task is not None and task.replicas:
                names = [host_of(context.job, task, index) for index in range(task.replicas)]
                cluster[role] = [f"{name}:{self._values['port']}" for name in names]
        mine = context.task.name
        kind = next((role for role in reversed(_ROLES) if self._values[role] == mine), mine)
        config = {"cluster": cluster, "task": {"type": kind, "index": context.index}}
        text = json.dumps(config, separators=(",", ":"))
        for container in containers(body, init=False):
            container["env"].append({"name": "TF_CONFIG", "value": text})


class MpiPlugin:
    """Sets MPI_HOST on masters, and opens the port of sshd."""

    def __init__(self, arguments: list[str]) -> None:
        defaults: dict[str, str | int | bool] = {
            "master": "master",
            "worker": "worker",
            "port": 22,
        }
        given = parse(arguments, defaults)
        self.problem = given.problem
        self._master, self._worker = given.text("master"), given.text("worker")
        self._port = given.number("port")

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        return []

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        variables = []
        if context.task.name == self._master:
            worker = context.task_of(self._worker)
            if worker is None:
                return
            names = [host_of(context.job, worker, index) for index in host_indexes(worker)]
            variables = [{"name": "MPI_HOST", "value": ",".join(names)}]
        for container in containers(body, init=True):
            open_port(container, "mpijob-port", self._port)
            container["env"] += variables


class PytorchPlugin:
    """Sets the address of the master, the size of the world and the rank."""

    def __init__(self, arguments: list[str]) -> None:
        defaults: dict[str, str | int | bool] = {
            "master": "master",
            "worker": "worker",
            "port": 23456,
            "wait-master-enabled": False,
            "wait-master-timeout": 300,
            "wait-master-image": "busybox:1.36.1",
        }
        given = parse(arguments, defaults)
        self.problem, self._values = given.problem, given.values
        self._master, self._worker = given.text("master"), given.text("worker")
        self._port = given.number("port")

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        return []

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        master, worker = context.task_of(self._master), context.task_of(self._worker)
        if master is None:
            return
        address = host_of(context.job, master, 0)
        size = master.replicas + (worker.replicas if worker is not None else 0)
        variables = {"MASTER_ADDR": address, "MASTER_PORT": self._port, "WORLD_SIZE": size}
        if context.task.name == self._worker:
            variables["RANK"] = master.replicas + context.index
            self._add_wait(address, body)
        elif context.task.name == self._master:
            variables["RANK"] = context.index
        for container in containers(body, init=False):
            open_port(container, "pytorchjob-port", self._port)
            container["env"] += [{"name": n, "value": str(v)} for n, v in variables.items()]

    def _add_wait(self, address: str, body: Manifest) -> None:
        """An init container that waits until the master listens."""
        held = list(body["spec"].get("initContainers") or ())
        if not self._values["wait-master-enabled"] or any(
            one.get("name") == _WAITS for one in held
        ):
            return
        seconds, port = self._values["wait-master-timeout"], self._port
        script = (
            f"left={seconds}\n"
            f"until {{ nc -z {address} {port} || echo > /dev/tcp/{address}/{port}; }} 2>/dev/null\n"
            "do\n"
            '  if [ "$left" -le 0 ]\n'
            f'  then echo "no master at {address}:{port} within {seconds} s"; exit 1\n'
            "  fi\n"
            "  sleep 2\n"
            "  left=$((left - 2))\n"
            "done\n"
        )
        image = str(self._values["wait-master-image"])
        wait = {"name": _WAITS, "image": image, "command": ["sh", "-c", script]}
        body["spec"]["initContainers"] = [*held, wait]
