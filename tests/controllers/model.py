"""A cluster in memory without a network: plans of the Job controller are performed act by act."""

import itertools
from typing import Any

import msgspec

from pumice.adapters.kubernetes.object_head import HEAD
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.job.controller import JobController
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import COMMANDS, JOBS, POD_GROUP, PODS, QUEUE
from pumice.controllers.runtime.acts import Act, Create, Delete, Emit, Patch, Plan
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.controller import Caches
from pumice.controllers.runtime.watches import Change, Watch
from tests.adapters.kubernetes.fake_api import Object
from tests.controllers.jobs import NAMESPACE

METRICS = Metrics(CONTROLLER_SERIES)
KEY = (NAMESPACE, "job")


class Killed(Exception):  # noqa: N818 - what a test does to a controller
    """The controller was killed after an act."""


class Model:
    """Objects, a controller with caches, and a log of what it did."""

    def __init__(self, job: Object) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.created: list[tuple[str, int]] = []
        self.made: list[tuple[str, str]] = []
        self.versions = [0]
        self.acts = 0
        self.now_ms = 1_800_000_000_000
        self._numbers = itertools.count(1)
        self.restart()
        self.put(QUEUE.full_name, {"metadata": {"name": "default"}, "spec": {}})
        self.put(JOBS.full_name, job)

    def restart(self) -> None:
        """A new controller, which has only what is stored."""
        self.controller = JobController(ControllerOptions())
        self._by_watch: dict[Watch[Any], ObjectCache[Any]] = {
            watch: ObjectCache(watch, METRICS) for watch in self.controller.watches
        }
        self.caches = Caches(self._by_watch)
        for cache in self._by_watch.values():
            cache.listeners.append(self._heed)
        for (resource, _), body in list(self.objects.items()):
            self._tell(resource, body)

    def _heed(self, change: Change[Any]) -> None:
        self.controller.track(change, self.caches)

    # The store.

    def put(self, resource: str, body: Object) -> None:
        metadata = body["metadata"]
        if resource != QUEUE.full_name:
            metadata.setdefault("namespace", NAMESPACE)
        metadata.setdefault("uid", f"uid-{next(self._numbers)}")
        metadata.setdefault("creationTimestamp", "2027-01-15T08:00:00Z")
        metadata["resourceVersion"] = str(next(self._numbers))
        self.objects[resource, metadata["name"]] = body
        self._tell(resource, body)

    def remove(self, resource: str, name: str) -> None:
        body = self.objects.pop((resource, name))
        head = HEAD.decode(msgspec.json.encode(body))
        for watch, cache in self._by_watch.items():
            if watch.resource.full_name == resource:
                cache.delete(head)

    def _tell(self, resource: str, body: Object) -> None:
        raw = msgspec.json.encode(body)
        for watch, cache in self._by_watch.items():
            if watch.resource.full_name == resource and watch.selects(
                body["metadata"].get("labels")
            ):
                cache.upsert(HEAD.decode(raw), msgspec.Raw(raw))

    def pods(self) -> dict[str, Object]:
        return {name: body for (kind, name), body in self.objects.items() if kind == "pods"}

    @property
    def job(self) -> Object:
        return self.objects[JOBS.full_name, "job"]

    @property
    def phase(self) -> str:
        return str(self.job.get("status", {}).get("state", {}).get("phase", ""))

    # The loop.

    def settle(self, kill_after: int | None = None) -> None:
        """Reconciles until there is nothing left to do. Raises Killed."""
        for _ in range(200):
            observed = self.controller.observe(KEY, self.caches, self.now_ms)
            if observed is None:
                return
            plan = self.controller.reconcile(observed)
            if not self._perform(plan, kill_after):
                if plan.again_seconds is None:
                    return
                self.now_ms += int(plan.again_seconds * 1000) + 1
        raise AssertionError(f"no end: {plan}")

    def _perform(self, plan: Plan, kill_after: int | None) -> bool:
        acted = False
        for stage in plan.stages:
            for act in stage:
                if isinstance(act, Emit):
                    continue
                acted = True
                if not self._act(act):
                    return True
                self.acts += 1
                if kill_after is not None and self.acts >= kill_after:
                    raise Killed
        return acted

    def _act(self, act: Act) -> bool:
        match act:
            case Create():
                return self._create(act)
            case Patch():
                body = self.objects.get((act.resource.full_name, act.name))
                if body is not None:
                    if act.version and act.version != body["metadata"]["resourceVersion"]:
                        return False
                    _merge(body, msgspec.json.decode(msgspec.json.encode(act.body)))
                    if "spec" in act.body:
                        body["metadata"]["generation"] = 1 + body["metadata"].get("generation", 1)
                    self.put(act.resource.full_name, body)
                    if act.resource == JOBS:
                        self.versions.append(body.get("status", {}).get("version", 0))
            case Delete():
                self._delete(act)
        return True

    def _create(self, act: Create) -> bool:
        made = act.complete() if act.complete is not None else act.body
        body = msgspec.json.decode(msgspec.json.encode(made))
        key = (act.resource.full_name, body["metadata"]["name"])
        if key in self.objects:
            assert act.resource != PODS, f"{key} is created twice"
            return act.may_exist
        self.made.append(key)
        if act.resource == PODS:
            version = int(body["metadata"]["annotations"]["volcano.sh/job-version"])
            self.created.append((key[1], version))
        self.put(key[0], body)
        return True

    def _delete(self, act: Delete) -> None:
        body = self.objects.get((act.resource.full_name, act.name))
        if body is None or (act.uid and body["metadata"]["uid"] != act.uid):
            return
        if act.resource == PODS:
            body["metadata"].setdefault("deletionTimestamp", "2027-01-15T08:00:00Z")
            self.put("pods", body)
        else:
            self.remove(act.resource.full_name, act.name)

    # What others do.

    def admit(self) -> None:
        for (kind, _), body in list(self.objects.items()):
            if kind == POD_GROUP.full_name:
                self.put(kind, {**body, "status": {"phase": "Inqueue"}})

    def set_phase(self, name: str, phase: str, exit_code: int = 0) -> None:
        body = self.objects["pods", name]
        ended = {"exitCode": exit_code, "finishedAt": "2027-01-15T08:00:00Z"}
        statuses = [{"state": {"terminated": ended}}] if phase in ("Succeeded", "Failed") else []
        self.put("pods", {**body, "status": {"phase": phase, "containerStatuses": statuses}})

    def bury(self) -> None:
        for name, body in self.pods().items():
            if "deletionTimestamp" in body["metadata"]:
                self.remove("pods", name)

    def command(self, action: str) -> None:
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job"}
        metadata = {"name": f"c{next(self._numbers)}"}
        self.put(COMMANDS.full_name, {"metadata": metadata, "action": action, "target": target})

    def check(self) -> None:
        """What always holds when there is nothing left to do."""
        assert self.versions == sorted(self.versions), "versions only grow"
        status: Any = self.job.get("status", {})
        alive = [p for p in self.pods().values() if "deletionTimestamp" not in p["metadata"]]
        for field, phase in (("running", "Running"), ("failed", "Failed")):
            count = sum(pod.get("status", {}).get("phase") == phase for pod in alive)
            assert status.get(field, 0) == count, (field, status, alive)


def _merge(held: Object, patch: Object) -> None:
    for name, value in patch.items():
        if value is None:
            held.pop(name, None)
        elif isinstance(value, dict):
            _merge(held.setdefault(name, {}), value)
        else:
            held[name] = value
