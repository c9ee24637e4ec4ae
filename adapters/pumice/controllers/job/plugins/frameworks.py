"""The plugins tensorflow, mpi and pytorch, which set the environment that each framework expects."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pumice.controllers.job.plugins.plugin import (
    JobPlugin,
    PodContext,
    Value,
    containers,
    host_of,
    hosts,
    open_port,
)
from pumice.controllers.runtime.objects import Manifest

_ROLES: Final = ("ps", "worker", "chief", "evaluator")
_WAIT_CONTAINER: Final = "wait-for-master"


class TensorflowPlugin(JobPlugin):
    """Sets TF_CONFIG."""

    defaults: ClassVar[Mapping[str, Value]] = {**{role: role for role in _ROLES}, "port": 2222}

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        tasks = context.spec.tasks or []
        if len(tasks) == 1 and tasks[0].replicas == 1:
            # A job with one pod is not distributed.
            return
        cluster: dict[str, Any] = {}
        for role in _ROLES:
            task = context.task_of(self._text(role))
            if task is not None and task.replicas:
                names = [host_of(context.job, task, index) for index in range(task.replicas)]
                cluster[role] = [f"{name}:{self._number('port')}" for name in names]
        mine = context.task.name
        kind = next((role for role in reversed(_ROLES) if self._text(role) == mine), mine)
        config = {"cluster": cluster, "task": {"type": kind, "index": context.index}}
        text = json.dumps(config, separators=(",", ":"))
        for container in containers(body, init=False):
            container["env"].append({"name": "TF_CONFIG", "value": text})


class MpiPlugin(JobPlugin):
    """Sets MPI_HOST in the pods of the master, and opens the port of sshd."""

    defaults: ClassVar[Mapping[str, Value]] = {"master": "master", "worker": "worker", "port": 22}

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        variables = []
        if context.task.name == self._text("master"):
            worker = context.task_of(self._text("worker"))
            if worker is None:
                return
            variables = [{"name": "MPI_HOST", "value": ",".join(hosts(context.job, worker))}]
        for container in containers(body, init=True):
            open_port(container, "mpijob-port", self._number("port"))
            container["env"] += variables


class PytorchPlugin(JobPlugin):
    """Sets the address of the master, the world size and the rank."""

    defaults: ClassVar[Mapping[str, Value]] = {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    }

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        master = context.task_of(self._text("master"))
        worker = context.task_of(self._text("worker"))
        if master is None:
            return
        address, port = host_of(context.job, master, 0), self._number("port")
        size = master.replicas + (worker.replicas if worker is not None else 0)
        variables = {"MASTER_ADDR": address, "MASTER_PORT": port, "WORLD_SIZE": size}
        if context.task.name == self._text("worker"):
            variables["RANK"] = master.replicas + context.index
            self._add_wait(address, port, body)
        elif context.task.name == self._text("master"):
            variables["RANK"] = context.index
        for container in containers(body, init=False):
            open_port(container, "pytorchjob-port", port)
            container["env"] += [{"name": n, "value": str(v)} for n, v in variables.items()]

    def _add_wait(self, address: str, port: int, body: Manifest) -> None:
        """Adds an init container that waits until the master listens."""
        given = list(body["spec"].get("initContainers") or ())
        is_there = any(one.get("name") == _WAIT_CONTAINER for one in given)
        if is_there or not self._values["wait-master-enabled"]:
            return
        seconds = self._number("wait-master-timeout")
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
        image = self._text("wait-master-image")
        wait = {"name": _WAIT_CONTAINER, "image": image, "command": ["sh", "-c", script]}
        body["spec"]["initContainers"] = [*given, wait]
