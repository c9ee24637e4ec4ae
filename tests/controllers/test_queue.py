"""The Queue controller: states, parents, Commands and counters."""

import random
from typing import Any

import msgspec
import pytest

from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.bus import Command
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.options import ControllerOptions
from pumice.controllers.queue.controller import WATCHED_GROUPS, QueueController
from pumice.controllers.queue.hierarchy import Problem, problem_of
from pumice.controllers.queue.reconcile import Observed, reconcile
from pumice.controllers.queue.types import (
    CLOSED_BY_PARENT,
    VALID_HIERARCHY,
    Condition,
    Queue,
    QueueSpec,
    QueueStatus,
)
from pumice.controllers.runtime.acts import NOTHING, Delete, Emit, Patch
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.controller import Caches
from pumice.controllers.runtime.objects import Metadata
from pumice.controllers.runtime.watches import Change
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Object
from tests.controllers.running import Loops

QUEUES = "queues.scheduling.volcano.sh"
GROUPS = "podgroups.scheduling.volcano.sh"
COMMANDS = "commands.bus.volcano.sh"


def queue(name: str = "red", state: str = "", parent: str = "root", by: str = "") -> Queue:
    annotations = {CLOSED_BY_PARENT: by} if by else None
    metadata = Metadata(name=name, uid=f"uid-{name}", annotations=annotations)
    return Queue(metadata, QueueSpec(parent), QueueStatus(state))


def command(action: str, name: str = "order") -> Command:
    return Command(Metadata(name=name, namespace="default", uid=f"uid-{name}"), action)


def patches(observed: Observed) -> dict[str, Any]:
    """What is written to the object and to its status, merged."""
    found: dict[str, Any] = {}
    for stage in reconcile(observed).stages:
        for act in stage:
            if isinstance(act, Patch):
                found |= act.body
    return found


def events(observed: Observed) -> list[tuple[str, bool]]:
    acts = [act for stage in reconcile(observed).stages for act in stage]
    return [(act.reason, act.warning) for act in acts if isinstance(act, Emit)]


ONE = {"running": 1}
# State, action of a Command, PodGroups, and the state that follows.
TABLE = [
    ("", "", {}, "Open"), ("", "OpenQueue", {}, "Open"), ("", "CloseQueue", {}, "Closed"),
    ("Open", "CloseQueue", ONE, "Closing"), ("Open", "CloseQueue", {}, "Closed"),
    ("Open", "", ONE, "Open"), ("Closing", "", ONE, "Closing"), ("Closing", "", {}, "Closed"),
    ("Closing", "CloseQueue", {}, "Closed"), ("Closing", "OpenQueue", ONE, "Open"),
    ("Closed", "", {}, "Closed"), ("Closed", "", ONE, "Closing"),
    ("Closed", "OpenQueue", {}, "Open"), ("Unknown", "", {}, "Unknown"),
    ("Unknown", "OpenQueue", {}, "Open"), ("Unknown", "CloseQueue", ONE, "Closing"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "action", "groups", "follows"), TABLE)
def test_states(state: str, action: str, groups: dict[str, int], follows: str) -> None:
    commands = (command(action),) if action else ()
    observed = Observed(queue(state=state), queue("root", "Open", ""), False, commands, groups)
    assert patches(observed).get("status", {}).get("state", state) == follows


def test_a_steady_queue_is_left_alone() -> None:
    assert reconcile(Observed(queue(state="Open"), queue("root", "Open"))).stages == ()


def test_a_queue_without_a_parent_gets_the_root() -> None:
    assert patches(Observed(queue(parent="", state="Open")))["spec"] == {"parent": "root"}
    assert "spec" not in patches(Observed(queue("root", parent="")))


def test_a_closed_parent_closes_and_an_open_one_opens_what_it_closed() -> None:
    shut = queue("mid", "Closing")
    below = Observed(queue(state="Open", parent="mid"), shut, counts=ONE)
    first, second = reconcile(below).stages
    assert isinstance(first[0], Patch)
    assert isinstance(second[0], Patch)
    assert first[0].body == {"metadata": {"annotations": {CLOSED_BY_PARENT: "true"}}}
    assert second[0].body["status"]["state"] == "Closing"
    again = Observed(queue(state="Closed", parent="mid", by="true"), queue("mid", "Open"))
    assert patches(again) == {
        "metadata": {"annotations": {CLOSED_BY_PARENT: "false"}},
        "status": {"state": "Open"},
    }
    by_hand = Observed(queue(state="Closed", parent="mid"), queue("mid", "Open"))
    assert reconcile(by_hand).stages == ()


def test_what_was_closed_by_hand_is_not_marked_when_its_parent_closes() -> None:
    observed = Observed(queue(state="Closed", parent="mid"), queue("mid", "Closed"))
    assert reconcile(observed).stages == ()


def test_a_queue_below_a_closed_one_cannot_be_opened() -> None:
    observed = Observed(queue(state="Closed", parent="mid"), queue("mid", "Closed"), False,
                (command("OpenQueue"),))  # fmt: skip
    assert events(observed) == [("OpenQueue", True)]
    assert patches(observed) == {}
    waits = Observed(observed.queue, observed.parent, True, observed.commands)
    assert reconcile(waits) == NOTHING


def test_the_root_stays_open() -> None:
    observed = Observed(queue("root", "Open", ""), commands=(command("CloseQueue"),))
    assert events(observed) == [("CloseQueue", True)]
    assert patches(observed) == {}


def test_the_newest_command_counts_and_all_are_removed() -> None:
    orders = (command("CloseQueue", "a"), command("Dance", "b"), command("OpenQueue", "c"))
    observed = Observed(queue(state="Closed"), commands=orders)
    acts = [act for stage in reconcile(observed).stages for act in stage]
    assert [act.name for act in acts if isinstance(act, Delete)] == ["a", "b", "c"]
    assert patches(observed)["status"]["state"] == "Open"
    assert events(Observed(queue(state="Open"), commands=orders[1:2])) == [("UnknownCommand", True)]


def test_the_newest_command_is_removed_last() -> None:
    """A process that ends in between must not obey an older one."""
    given = (command("CloseQueue", "one"), command("OpenQueue", "two"), command("OpenQueue", "new"))
    stages = reconcile(Observed(queue(state="Closed"), commands=given)).stages
    names = [[act.name for act in stage if isinstance(act, Delete)] for stage in stages]
    assert [some for some in names if some] == [["one", "two"], ["new"]]


async def test_a_command_for_a_queue_that_does_not_exist_is_dropped(
    fake_api: FakeApi, loops: Loops
) -> None:
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "gone"}
    metadata = {"namespace": "default", "name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}
    fake_api.put(COMMANDS, {"metadata": metadata, "action": "CloseQueue", "target": target})
    loops.start(QueueController(ControllerOptions()))
    await until(lambda: (COMMANDS, "default", "c") not in fake_api.objects)


def test_counters_wait_and_the_state_does_not() -> None:
    slow = Observed(queue(state="Open"), counts={"pending": 2}, counters_seconds=0.5)
    plan = reconcile(slow)
    assert (plan.stages, plan.again_seconds) == ((), 0.5)
    now = Observed(queue(state="Open"), counts={"pending": 2, "odd": 1})
    assert patches(now) == {"status": {"pending": 2}}
    new = Observed(queue(), counts={"pending": 2}, counters_seconds=0.5)
    assert patches(new)["status"] == {"state": "Open", "pending": 2}


def group(name: str, queue: str, phase: str) -> Object:
    metadata = {"name": name, "namespace": "ns"}
    return {"metadata": metadata, "spec": {"queue": queue}, "status": {"phase": phase}}


async def test_a_tree_is_closed_and_opened_again(fake_api: FakeApi, loops: Loops) -> None:
    for name, parent in (("root", ""), ("mid", ""), ("low", "mid"), ("hand", "mid")):
        fake_api.put(QUEUES, {"metadata": {"name": name}, "spec": {"parent": parent}})
    fake_api.put(GROUPS, group("one", "low", "Running"))
    loops.start(QueueController(ControllerOptions()))

    def state(name: str) -> str:
        return str(fake_api.get(QUEUES, "", name).get("status", {}).get("state", ""))

    def order(action: str, name: str) -> None:
        target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": name}
        body = {"metadata": {"name": f"{name}-{action}", "namespace": "default"}}
        fake_api.put(COMMANDS, {**body, "action": action, "target": target})

    await until(lambda: [state(name) for name in ("mid", "low", "hand")] == ["Open"] * 3)
    assert fake_api.get(QUEUES, "", "mid")["spec"]["parent"] == "root"
    await until(lambda: fake_api.get(QUEUES, "", "low")["status"].get("running") == 1)
    order("CloseQueue", "hand")
    await until(lambda: state("hand") == "Closed")
    order("CloseQueue", "mid")
    await until(lambda: (state("mid"), state("low")) == ("Closed", "Closing"))
    fake_api.put(GROUPS, group("one", "elsewhere", "Running"))
    await until(lambda: state("low") == "Closed")
    order("OpenQueue", "mid")
    await until(lambda: (state("mid"), state("low"), state("hand")) == ("Open", "Open", "Closed"))
    await until(lambda: not any(key[0] == COMMANDS for key in fake_api.objects))
    writes = len(fake_api.made("PATCH", "queues"))
    loops.start(QueueController(ControllerOptions()))
    await until(lambda: fake_api.open_watches >= 6)
    assert len(fake_api.made("PATCH", "queues")) == writes


def tree(**specs: Any) -> dict[str, Queue]:
    """Queues by name; a text is a parent."""
    made = {
        name: {"parent": spec} if isinstance(spec, str) else spec for name, spec in specs.items()
    }
    return {
        name: Queue(Metadata(name=name), msgspec.convert(spec, QueueSpec))
        for name, spec in {"root": {}, **made}.items()
    }


def reason(queues: dict[str, Queue], name: str, **counts: int) -> str:
    below = [one for one in queues.values() if one.parent == name]
    found = problem_of(queues[name], queues.get, below, counts)
    return found.reason if found is not None else ""


def test_the_place_of_a_queue() -> None:
    assert reason(tree(a="root"), "a", running=1) == ""
    assert reason(tree(a="gone"), "a") == "ParentMissing"
    assert reason(tree(a="b", b="gone"), "a") == "ParentMissing"
    assert reason(tree(a="b", b="a"), "a") == "ParentCycle"
    assert reason(tree(a="b", b="c", c="b"), "a") == "ParentCycle"
    chain = tree(a="root", b="a", c="b", d="c", e="d", f="e")
    assert (reason(chain, "e"), reason(chain, "f")) == ("", "TooDeep")
    assert reason(tree(a="root", b="a"), "a", running=1) == "JobsAboveQueues"
    assert reason(tree(a="root", b="a"), "a", completed=1) == ""
    assert reason(tree(a="root"), "root", running=1) == ""


def test_shares_in_the_tree() -> None:
    limits = tree(
        a={"capability": {"cpu": "4"}},
        b={"parent": "a", "capability": {"memory": "1Gi"}},
        c={"parent": "b", "capability": {"cpu": "4001m"}},
    )
    assert reason(limits, "c") == "CapabilityTooLarge"
    assert reason(limits, "b") == ""
    shares = tree(
        a={"deserved": {"cpu": 3, "memory": "1Gi"}},
        b={"parent": "a", "deserved": {"cpu": "1500m"}},
        c={"parent": "a", "deserved": {"cpu": "1500m"}, "guarantee": {"resource": {"cpu": 1}}},
    )
    assert reason(shares, "a") == "SumTooLarge"
    shares["c"].spec.guarantee = None
    assert reason(shares, "a") == ""
    shares["b"].spec.deserved = {"cpu": "1501m"}
    assert reason(shares, "a") == "SumTooLarge"
    # Queues below the root may have what they like, and what cannot be read counts as none.
    assert reason(tree(a={"deserved": {"cpu": "many"}}), "a") == ""


def test_a_problem_is_a_condition_and_an_event_and_ends() -> None:
    root, red = queue("root", "Open"), queue(state="Open")
    wrong = Observed(red, root, problem=Problem("ParentMissing", "text"), now_ms=1000)
    (condition,) = patches(wrong)["status"]["conditions"]
    assert condition == {
        "type": VALID_HIERARCHY, "status": "False", "reason": "ParentMissing", "message": "text",
        "lastTransitionTime": "1970-01-01T00:00:01Z",
    }  # fmt: skip
    assert events(wrong) == [("ParentMissing", True)]
    # A definition without conditions, such as Volcano's, stores none.
    told = Observed(
        red, root, problem=Problem("ParentMissing", "text"), now_ms=1000, is_reported=True
    )
    assert reconcile(told).stages == ()
    red.status.conditions = [msgspec.convert(condition, Condition)]
    assert reconcile(wrong).stages == ()
    right = Observed(red, root, now_ms=2000)
    (condition,) = patches(right)["status"]["conditions"]
    assert (condition["status"], events(right)) == ("True", [("Valid", False)])
    red.status.conditions = [msgspec.convert(condition, Condition)]
    assert reconcile(right).stages == ()


async def test_the_tree_is_looked_at_again_when_it_changes(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.resources |= {QUEUES, GROUPS, COMMANDS}
    fake_api.with_status |= {QUEUES}

    def put(name: str, **spec: Any) -> None:
        held = fake_api.objects.get((QUEUES, "", name), {"metadata": {"name": name}})
        fake_api.put(QUEUES, {**held, "spec": spec})

    def said(name: str) -> str:
        status = fake_api.get(QUEUES, "", name).get("status", {})
        return "".join(one["reason"] for one in status.get("conditions", ()))

    put("root")
    put("low", parent="mid")
    loops.start(QueueController(ControllerOptions()))
    await until(lambda: said("low") == "ParentMissing")
    put("mid", parent="root")
    await until(lambda: said("low") == "Valid")
    put("high", parent="mid", deserved={"cpu": 1})
    await until(lambda: said("mid") == "SumTooLarge")
    put("mid", parent="root", deserved={"cpu": 1})
    await until(lambda: said("mid") == "Valid")


def test_counts_are_those_of_a_recount() -> None:
    controller, rng = QueueController(ControllerOptions()), random.Random(5)
    cache = ObjectCache(WATCHED_GROUPS, Metrics(CONTROLLER_SERIES))
    caches = Caches({WATCHED_GROUPS: cache})

    def see(change: Change[Any]) -> None:
        controller.track(change, caches)

    cache.listeners.append(see)
    for version in range(1, 2000):
        name = f"g{rng.randrange(20)}"
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
        spec = {"queue": rng.choice(["a", "b", ""])}
        status = {"phase": rng.choice(["", "Pending", "Inqueue", "Running"])}
        raw = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})
        head = msgspec.json.decode(raw, type=Head)
        if rng.random() < 0.2:
            cache.delete(head)
        else:
            cache.upsert(head, msgspec.Raw(raw))
        counted: dict[str, dict[str, int]] = {}
        for group in cache:
            held = counted.setdefault(group.spec.queue or "default", {})
            phase = (group.status.phase or "Pending").lower()
            held[phase] = held.get(phase, 0) + 1
        assert controller._counts == counted
