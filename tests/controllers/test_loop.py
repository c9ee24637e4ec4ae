"""The loop: own writes in the caches, retries, drains, and events."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from pumice.adapters.runtime.clock import Backoff, end_tasks
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CONFIG_MAPS, PODS
from pumice.controllers.runtime.acts import Create, Delete, Emit, Patch, Plan, Reference
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import ApiObject, Key
from pumice.controllers.runtime.watches import Change, Watch, by_owner
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.controllers.running import Loops

OWNERS = Watch(CONFIG_MAPS, ApiObject)
MADE = Watch(PODS, ApiObject, label_selector="made", indexes={"owner": by_owner})


# An owner, and the pods that it controls.
Owned = tuple[ApiObject, list[ApiObject]]


class OnePodEach(Controller[Owned]):
    """Makes a pod for every ConfigMap, and marks the ConfigMap when the pod is there."""

    name = "one-pod-each"
    watches: Sequence[Watch[Any]] = (OWNERS, MADE)

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.latest.metadata
        if change.watch == OWNERS:
            return (metadata.key,)
        return ((metadata.namespace, metadata.controller().name),)

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Owned | None:
        owner = caches[OWNERS].get(*key)
        return None if owner is None else (owner, caches[MADE].by("owner", owner.metadata.uid))

    def reconcile(self, observed: Owned) -> Plan:
        owner, pods = observed
        metadata = owner.metadata
        about = Reference.of(CONFIG_MAPS, metadata)
        if not pods:
            reference = {"name": metadata.name, "uid": metadata.uid, "controller": True}
            body = {
                "metadata": {
                    "namespace": metadata.namespace,
                    "name": metadata.name,
                    "labels": {"made": "yes"},
                    "ownerReferences": [reference],
                }
            }
            refused = Emit(about, "FailedCreate", "no pod")
            return Plan(
                ((Create(PODS, body, on_refusal=refused),), (Emit(about, "Made", "a pod"),))
            )
        if metadata.label("done"):
            return Plan()
        patch = {"metadata": {"labels": {"done": "yes"}}}
        return Plan(
            (
                (
                    Patch(
                        CONFIG_MAPS, metadata.namespace, metadata.name, metadata.uid, patch,
                        version=metadata.resource_version,
                    ),
                ),
            )
        )  # fmt: skip


def owner(name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name}}


def labels(api: FakeApi, name: str) -> dict[str, str]:
    found: dict[str, str] = api.get("configmaps", "ns", name)["metadata"].get("labels", {})
    return found


async def test_a_change_is_reconciled_until_nothing_is_left_to_do(
    fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.put("configmaps", owner("a"))
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: labels(fake_api, "a").get("done"))
    fake_api.put("configmaps", owner("b"))
    await until(lambda: labels(fake_api, "b").get("done"))
    assert len(fake_api.made("POST", "/pods$")) == 2
    assert len(fake_api.made("PATCH", "/configmaps/")) == 2
    await until(lambda: len(fake_api.made("POST", "/events$")) == 2)
    event = next(body for key, body in fake_api.objects.items() if key[0] == "events")
    assert event["involvedObject"]["kind"] == "ConfigMap"
    assert event["source"]["component"] == "vc-controller-manager"


async def test_a_failed_act_is_tried_again_and_a_refusal_is_reported(
    fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.trouble = [
        Trouble("POST", "/pods$", status=503),
        Trouble("POST", "/pods$", status=422, message="bad pod"),
        Trouble("POST", "/pods$", loses_answer=True),
        Trouble("PATCH", "/configmaps/", status=409),
    ]
    fake_api.put("configmaps", owner("a"))
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: labels(fake_api, "a").get("done"))
    assert len(fake_api.made("POST", "/pods$")) <= 4
    await until(lambda: any(b.get("reason") == "FailedCreate" for b in fake_api.objects.values()))
    event = next(b for b in fake_api.objects.values() if b.get("reason") == "FailedCreate")
    assert event["message"] == "no pod: bad pod"
    assert event["type"] == "Warning"


async def test_an_outage_of_the_api_server_is_not_outlasted_by_the_delays_of_keys(
    fake_api: FakeApi, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.controllers.runtime.loop.RETRY_BACKOFF", Backoff(1000.0, 1000.0))
    monkeypatch.setattr("pumice.controllers.runtime.loop._OUTAGE_SECONDS", 0.01)
    fake_api.trouble = [
        Trouble("POST", "/pods$", status=503, times=5),
        Trouble("POST", "/pods$", loses_answer=True),
    ]
    fake_api.put("configmaps", owner("a"))
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: labels(fake_api, "a").get("done"))


async def test_an_object_whose_answer_was_lost_is_known_as_our_own(
    fake_api: FakeApi, loops: Loops
) -> None:
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: fake_api.open_watches == 3)
    # The watch says nothing, so that only the second attempt can find the pod.
    fake_api.trouble = [
        Trouble("POST", "/pods$", loses_answer=True),
        Trouble("GET", r"/pods\?", times=100_000, status=503),
    ]
    fake_api.end_watches("pods")
    fake_api.put("configmaps", owner("a"))
    await until(lambda: labels(fake_api, "a").get("done"))
    assert fake_api.made("GET", "/pods/a$")
    fake_api.trouble.clear()
    assert not any(b.get("reason") == "FailedCreate" for b in fake_api.objects.values())


async def test_a_conflict_is_tried_again_quietly_and_takes_nothing_for_done(
    fake_api: FakeApi, loops: Loops, caplog: pytest.LogCaptureFixture
) -> None:
    """A conflict of a creation is that of a quota: the object does not exist."""
    fake_api.trouble = [
        Trouble("POST", "/pods$", status=409, message="the object has been modified"),
        Trouble("PATCH", "/configmaps/", status=409),
    ]
    fake_api.put("configmaps", owner("a"))
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: labels(fake_api, "a").get("done"))
    assert ("pods", "ns", "a") in fake_api.objects
    assert not [line for line in caplog.records if line.levelname == "WARNING"]
    assert not any(b.get("reason") == "FailedCreate" for b in fake_api.objects.values())
    assert loops.metrics.counted("acts", result="conflict") == 2


async def test_a_drained_loop_completes_what_it_has_begun(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.trouble = [Trouble("POST", "/pods$", passes=True, seconds=0.2)]
    fake_api.put("configmaps", owner("a"))
    loop = loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: fake_api.made("POST", "/pods$"))
    loop.drain()
    await asyncio.wait_for(loops.tasks[1], 30)
    assert ("pods", "ns", "a") in fake_api.objects
    assert fake_api.made("POST", "/events$")


async def test_a_key_does_not_wait_longer_after_a_lease_that_was_not_renewed(
    fake_api: FakeApi, loops: Loops, caplog: pytest.LogCaptureFixture
) -> None:
    """Its calls were not made, so it did not fail; its delay would grow to minutes."""
    loops.leads = False
    fake_api.put("configmaps", owner("a"))
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: loops.metrics.counted("reconciles", result="not leading") > 3)
    loops.leads = True
    await until(lambda: labels(fake_api, "a").get("done"))
    assert "retry in" not in caplog.text


async def test_a_reconcile_that_raises_stops_no_other_key(fake_api: FakeApi, loops: Loops) -> None:
    class Buggy(OnePodEach):
        def reconcile(self, observed: Owned) -> Plan:
            if observed[0].metadata.name == "bad":
                raise ZeroDivisionError
            return super().reconcile(observed)

    for name in ("bad", "good"):
        fake_api.put("configmaps", owner(name))
    loops.start(Buggy(ControllerOptions()))
    await until(lambda: labels(fake_api, "good").get("done"))
    await until(lambda: loops.metrics.counted("reconciles", result="failed") >= 1)


async def test_keys_that_cannot_be_told_end_no_watch(fake_api: FakeApi, loops: Loops) -> None:
    class Buggy(OnePodEach):
        def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
            if change.latest.metadata.name == "bad":
                raise ZeroDivisionError
            return super().keys(change, caches)

    for name in ("bad", "good"):
        fake_api.put("configmaps", owner(name))
    loops.start(Buggy(ControllerOptions()))
    await until(lambda: labels(fake_api, "good").get("done"))
    assert not loops.tasks[0].done()


async def test_work_that_was_cut_off_is_done_when_the_process_leads_again(
    fake_api: FakeApi, loops: Loops
) -> None:
    """A process that loses its lease and wins it again may be the only one."""
    fake_api.trouble = [Trouble("POST", "/pods$", status=503, seconds=30.0)]
    fake_api.put("configmaps", owner("a"))
    loop = loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: fake_api.made("POST", "/pods$"))
    await end_tasks(loops.tasks.pop())
    fake_api.trouble.clear()
    loops.tasks.append(asyncio.create_task(loop.work()))
    await until(lambda: labels(fake_api, "a").get("done"))


async def test_a_standby_remembers_no_deleted_objects(fake_api: FakeApi, loops: Loops) -> None:
    """A standby may run for months, and every Job of every day has another name."""
    loop = loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: all(one.listed.is_set() for one in loop._reflectors))
    await end_tasks(loops.tasks.pop())
    for number in range(100):
        fake_api.put("configmaps", owner(f"old-{number}"))
    await until(lambda: len(loop.caches[OWNERS]) == 100)
    for number in range(100):
        fake_api.remove("configmaps", "ns", f"old-{number}")
    fake_api.put("configmaps", owner("kept"))
    await until(lambda: len(loop.caches[OWNERS]) == 1)
    assert [len(one.queue) for one in loop._running] == [0]
    loops.tasks.append(asyncio.create_task(loop.work()))
    await until(lambda: labels(fake_api, "kept").get("done"))
    assert len(fake_api.made("POST", "/pods$")) == 1


async def test_an_object_of_an_earlier_owner_is_told_once(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.put("configmaps", owner("a"))
    reference = {"name": "a", "uid": "earlier", "controller": True}
    held = {"namespace": "ns", "name": "a", "ownerReferences": [reference]}
    fake_api.put("pods", {"metadata": held})
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: len(fake_api.made("POST", "/pods$")) >= 5)
    fake_api.remove("pods", "ns", "a")
    await until(lambda: labels(fake_api, "a").get("done"))
    await until(lambda: any(b.get("reason") == "Made" for b in fake_api.objects.values()))
    told = [b for b in fake_api.objects.values() if b.get("reason") == "FailedCreate"]
    assert [(one["message"], one.get("count", 1)) for one in told] == [
        ("no pod: Pod ns/a exists already and belongs to an earlier None a", 1)
    ]
    assert not fake_api.made("PATCH", "/events/")


async def test_a_deletion_is_known_at_once(fake_api: FakeApi, loops: Loops) -> None:
    class Deleter(OnePodEach):
        def reconcile(self, observed: Owned) -> Plan:
            metadata = observed[0].metadata
            return Plan(((Delete(CONFIG_MAPS, *metadata.key, uid=metadata.uid),),))

    fake_api.put("configmaps", owner("a"))
    loops.start(Deleter(ControllerOptions()))
    await until(lambda: ("configmaps", "ns", "a") not in fake_api.objects)
    await until(lambda: loops.metrics.counted("reconciles", result="absent") >= 1)
    assert len(fake_api.made("DELETE", "/configmaps/a")) == 1


async def test_a_missing_right_of_many_keys_costs_few_calls(
    fake_api: FakeApi, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Backoff(0.01, 0.05)
    monkeypatch.setattr("pumice.controllers.runtime.loop.RETRY_BACKOFF", quick)
    names = [f"owner-{number}" for number in range(50)]
    for name in names:
        fake_api.put("configmaps", owner(name))
    text = 'User "u" cannot create resource "pods" in API group "" in the namespace "ns"'
    trouble = Trouble("POST", "/pods$", times=10_000, status=403, message=text)
    fake_api.trouble = [trouble]
    loops.start(OnePodEach(ControllerOptions()))
    metrics = loops.metrics
    await until(lambda: metrics.counted("acts", verb="create", result="withheld") > 200)
    # All of the first calls are in flight when the first refusal arrives.
    assert metrics.counted("acts", verb="create", result="failed") < len(names) + 5
    trouble.times = 0
    await until(lambda: all(("pods", "ns", name) in fake_api.objects for name in names))


async def test_an_object_that_is_not_found_for_a_moment_is_written_later(
    fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.trouble = [Trouble("PATCH", "/configmaps/", times=3, status=404)]
    fake_api.put("configmaps", owner("a"))
    loops.start(OnePodEach(ControllerOptions()))
    await until(lambda: labels(fake_api, "a").get("done"))
