"""Jobs, and a cluster in the fake API server: admits PodGroups, runs, finishes and deletes pods."""

from collections.abc import Iterable
from typing import Any

from tests.adapters.kubernetes.fake_api import FakeApi, Object

JOBS = "jobs.batch.volcano.sh"
GROUPS = "podgroups.scheduling.volcano.sh"
QUEUES = "queues.scheduling.volcano.sh"
NAMESPACE = "ns"


def task(name: str = "work", replicas: int = 2, **more: Any) -> Object:
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], **more.pop("pod", {})}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def job(name: str = "job", *tasks: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"queue": "default", "tasks": list(tasks) or [task()], **spec},
    }


def policy(action: str, event: str = "", **more: Any) -> Object:
    return {"action": action, **({"event": event} if event else {}), **more}


def pass_through(statuses: Iterable[Object], *phases: str) -> bool:
    """Whether statuses show these phases in this order, with the counters that clients wait for.

    Volcano's own end-to-end tests wait for them in this way.
    """
    wanted = list(phases)
    for status in statuses:
        if not wanted or status.get("state", {}).get("phase") != wanted[0]:
            continue
        alive = status.get("pending", 0) + status.get("running", 0)
        match wanted[0]:
            case "Terminating" | "Aborting" | "Completing" | "Restarting":
                is_seen = status.get("terminating", 0) > 0
            case "Terminated" | "Aborted" | "Completed":
                is_seen = not alive and not status.get("terminating")
            case "Running":
                is_seen = status.get("running", 0) >= status["minAvailable"]
            case _:
                is_seen = True
        if is_seen:
            wanted.pop(0)
    return not wanted


class FakeCluster:
    """What a scheduler, kubelets and users do to the objects of the fake API server."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})

    def pods(self, name: str = "") -> dict[str, Object]:
        return {
            key[2]: body
            for key, body in sorted(self.api.objects.items())
            if key[0] == "pods"
            and (not name or body["metadata"]["annotations"]["volcano.sh/job-name"] == name)
        }

    def groups(self) -> list[Object]:
        return [body for key, body in self.api.objects.items() if key[0] == GROUPS]

    def status(self, name: str = "job") -> Object:
        found: Object = self.api.get(JOBS, NAMESPACE, name).get("status", {})
        return found

    def phase(self, name: str = "job") -> str:
        return str(self.status(name).get("state", {}).get("phase", ""))

    def admit(self) -> None:
        for group in self.groups():
            if group.get("status", {}).get("phase") != "Inqueue":
                self.api.put(GROUPS, {**group, "status": {"phase": "Inqueue"}})

    def set_phase(self, pod: str, phase: str, exit_code: int = 0) -> None:
        body = self.api.get("pods", NAMESPACE, pod)
        status: Object = {"phase": phase}
        if phase in ("Succeeded", "Failed"):
            ended = {"exitCode": exit_code, "finishedAt": "2026-01-01T00:01:00Z"}
            status["containerStatuses"] = [{"name": "main", "state": {"terminated": ended}}]
        elif phase == "Running":
            status["containerStatuses"] = [{"name": "main", "ready": True, "restartCount": 0}]
        self.api.put("pods", {**body, "status": status})

    def run(self) -> None:
        """Pending pods begin to run."""
        for name, pod in self.pods().items():
            phase = pod.get("status", {}).get("phase", "Pending")
            if phase == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                self.set_phase(name, "Running")

    def bury(self) -> None:
        """Terminating pods go."""
        for name, pod in self.pods().items():
            if "deletionTimestamp" in pod["metadata"]:
                self.api.remove("pods", NAMESPACE, name)

    def step(self) -> None:
        self.admit()
        self.run()
        self.bury()

    def command(self, action: str, target: str = "job") -> None:
        reference = {
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": target, "uid": "x",
        }  # fmt: skip
        metadata = {"namespace": NAMESPACE, "name": f"{action.lower()}-{self.api.version}"}
        body = {"metadata": metadata, "action": action, "target": reference}
        self.api.put("commands.bus.volcano.sh", body)
