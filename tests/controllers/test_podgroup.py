"""The PodGroup controller: pods without a group, their owners, and what the owners change."""

from typing import Any

import pytest

from pumice.controllers.job.controller import WATCHED_QUEUES
from pumice.controllers.options import ControllerOptions
from pumice.controllers.podgroup.controller import PodGroupController
from pumice.controllers.podgroup.reconcile import Observed, group_body, reconcile
from pumice.controllers.podgroup.types import (
    GROUP_NAME,
    MIN_MEMBER,
    GroupSpec,
    Pod,
    PodGroup,
    PodSpec,
)
from pumice.controllers.queue.types import Queue, QueueStatus
from pumice.controllers.resources import POD_GROUP
from pumice.controllers.runtime.acts import NOTHING, Create, Delete, Patch
from pumice.controllers.runtime.objects import Metadata, OwnerReference
from pumice.controllers.runtime.watches import Change
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.controllers.running import Loops

GROUPS = "podgroups.scheduling.volcano.sh"
SETS = "replicasets.apps"
OWNERS = {SETS, "statefulsets.apps", "daemonsets.apps", "jobs.batch"}
OWNER = OwnerReference("apps/v1", "ReplicaSet", "web", "uid-web", controller=True)
NAME = "podgroup-uid-web"


def pod(
    name: str = "a", group: str = "", owner: OwnerReference | None = OWNER, **notes: str
) -> Pod:
    annotations = {key.replace("__", "/").replace("_", "-"): text for key, text in notes.items()}
    if group:
        annotations[GROUP_NAME] = group
    spec = PodSpec(containers=[])
    metadata = Metadata(
        name=name, namespace="ns", uid=f"uid-{name}", annotations=annotations,
        owner_references=[owner] if owner else None,
    )  # fmt: skip
    return Pod(metadata, spec)


def held(least: int = 1, **annotations: str) -> PodGroup:
    metadata = Metadata(name=NAME, namespace="ns", uid="uid-group", annotations=annotations)
    return PodGroup(metadata, GroupSpec(min_member=least))


def test_a_group_first_and_its_name_then() -> None:
    first, second = reconcile(Observed(NAME, (pod("a"), pod("b")))).stages
    assert isinstance(first[0], Create)
    assert first[0].body["metadata"]["name"] == NAME
    assert [act.name for act in second if isinstance(act, Patch)] == ["a", "b"]
    assert isinstance(second[0], Patch)
    assert second[0].body == {"metadata": {"annotations": {GROUP_NAME: NAME}}}


def test_a_pod_that_has_all_is_left_alone() -> None:
    assert reconcile(Observed(NAME, (pod(group=NAME),), held())) == NOTHING


def test_pods_that_are_over_need_no_group() -> None:
    over = pod()
    over.status.phase = "Succeeded"
    assert reconcile(Observed(NAME, (over,))) == NOTHING


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("3", 3),
        ("0", 0),
        ("-1", 1),
        ("many", 1),
        ("", 1),
        ("1.5", 1),
        ("²", 1),
        ("9" * 30, 2**31 - 1),
        ("9" * 5000, 2**31 - 1),
        ("0" * 5000 + "3", 3),
    ],
)
def test_the_owner_says_how_many_are_needed(text: str, least: int) -> None:
    assert group_body(pod(), NAME, {MIN_MEMBER: text})["spec"]["minMember"] == least


def test_what_a_group_takes_from_pod_and_owner() -> None:
    made = pod(
        volcano__jdb_max_unavailable="1", volcano__preemptable="true", other__thing="x",
        scheduling__queue_name="red",
    )  # fmt: skip
    # Names of keyword arguments cannot have dots.
    renamed = {
        key.replace("volcano/", "volcano.sh/").replace(
            "scheduling/", "scheduling.volcano.sh/"
        ): text
        for key, text in (made.metadata.annotations or {}).items()
    }
    made.metadata.annotations = renamed | {
        "volcano.sh/network-topology-mode": "SOFT",
        "volcano.sh/network-topology-highest-tier": "2",
    }
    made.spec.priority_class_name = "high"
    made.metadata.labels = {"volcano.sh/cooldown-time": "5m", "app": "web"}
    inherited = {"volcano.sh/preemptable": "false", "volcano.sh/sla-waiting-time": "1h", "x": "y"}
    body = group_body(made, NAME, inherited)
    assert body["metadata"]["annotations"] == {
        "volcano.sh/preemptable": "true",
        "volcano.sh/sla-waiting-time": "1h",
        "volcano.sh/jdb-max-unavailable": "1",
    }
    assert body["metadata"]["labels"] == {"volcano.sh/cooldown-time": "5m"}
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-web"
    assert body["spec"]["queue"] == "red"
    assert body["spec"]["priorityClassName"] == "high"
    assert body["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}
    assert body["status"] == {"phase": "Pending"}


def test_a_pod_without_an_owner_owns_its_group() -> None:
    (owner,) = group_body(pod(owner=None), "podgroup-uid-a", {})["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "uid-a", True)


def test_the_group_follows_its_owner_and_keeps_what_users_changed() -> None:
    one = (pod(group=NAME),)
    ((patch,),) = reconcile(Observed(NAME, one, held(1), {MIN_MEMBER: "4"})).stages
    assert isinstance(patch, Patch)
    assert patch.body["spec"]["minMember"] == 4
    assert reconcile(Observed(NAME, one, held(7))) == NOTHING


def test_an_owner_that_wants_no_pods_has_no_group() -> None:
    ((act,),) = reconcile(Observed(NAME, (pod(group=NAME),), held(), is_scaled_to_zero=True)).stages
    assert act == Delete(POD_GROUP, "ns", NAME, "uid-group")
    assert reconcile(Observed(NAME, (), None, is_scaled_to_zero=True)) == NOTHING


async def test_pods_of_a_replica_set(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.resources |= OWNERS
    owner = {"name": "web", "namespace": "ns", "annotations": {MIN_MEMBER: "2"}}
    uid = fake_api.put(SETS, {"metadata": owner, "spec": {"replicas": 2}})["metadata"]["uid"]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid,
                 "controller": True}  # fmt: skip

    def add(name: str, scheduler: str, **metadata: Any) -> None:
        requests = {"requests": {"cpu": "500m"}}
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "resources": requests}]}
        fake_api.put(
            "pods", {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": spec}
        )

    for name in ("a", "b"):
        add(name, "volcano", ownerReferences=[reference])
    add("alone", "volcano")
    add("other", "default-scheduler")
    add("grouped", "volcano", annotations={GROUP_NAME: "mine"})
    add("job", "volcano", labels={"volcano.sh/job-name": "j"})
    loops.start(PodGroupController(ControllerOptions()))

    def group_of(name: str) -> str:
        metadata = fake_api.get("pods", "ns", name)["metadata"]
        return str(metadata.get("annotations", {}).get(GROUP_NAME, ""))

    await until(lambda: group_of("a") == group_of("b") == f"podgroup-{uid}")
    await until(lambda: group_of("alone").startswith("podgroup-"))
    made = fake_api.get(GROUPS, "ns", f"podgroup-{uid}")
    assert made["spec"]["minMember"] == 2
    assert made["spec"]["minResources"]["cpu"] == "1"
    assert (group_of("other"), group_of("grouped"), group_of("job")) == ("", "mine", "")
    owner = {**fake_api.get(SETS, "ns", "web")["metadata"], "annotations": {MIN_MEMBER: "1"}}
    fake_api.put(SETS, {"metadata": owner, "spec": {"replicas": 2}})
    await until(lambda: fake_api.get(GROUPS, "ns", f"podgroup-{uid}")["spec"]["minMember"] == 1)
    fake_api.put(SETS, {"metadata": owner, "spec": {"replicas": 0}})
    await until(lambda: (GROUPS, "ns", f"podgroup-{uid}") not in fake_api.objects)


async def test_a_pod_whose_group_was_refused_is_tried_again_when_its_queue_opens(
    fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.resources |= OWNERS
    for name, queue in (("a", "shut"), ("b", "other"), ("c", "")):
        notes = {"scheduling.volcano.sh/queue-name": queue} if queue else {}
        metadata = {"namespace": "ns", "name": name, "annotations": notes}
        spec = {"schedulerName": "volcano", "containers": [{"name": "c"}]}
        fake_api.put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    refused = Trouble("POST", "/podgroups$", times=100, status=422, message="queue is Closed")
    fake_api.trouble = [refused]
    controller = PodGroupController(ControllerOptions())
    caches = loops.start(controller).caches
    await until(lambda: refused.times < 97)

    def keys(name: str, before: str, after: str) -> list[Any]:
        metadata = Metadata(name=name)
        old, new = (Queue(metadata, status=QueueStatus(state)) for state in (before, after))
        return list(controller.keys(Change(WATCHED_QUEUES, old, new), caches))

    def group_of(name: str) -> tuple[str, str]:
        return "ns", f"podgroup-{fake_api.get('pods', 'ns', name)['metadata']['uid']}"

    assert keys("shut", "Closed", "Open") == [group_of("a")]
    assert keys("default", "Closing", "Open") == [group_of("c")]
    assert keys("shut", "Open", "Closing") == keys("shut", "Open", "Open") == []
