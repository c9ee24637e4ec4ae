"""The Queue controller: states, parents, Commands and counters."""

from typing import Any

import pytest

from pumice.controllers.job.types import Command
from pumice.controllers.options import ControllerOptions
from pumice.controllers.queue.controller import QueueController
from pumice.controllers.queue.reconcile import Seen, reconcile
from pumice.controllers.queue.types import CLOSED_BY_PARENT, Queue, QueueSpec, QueueStatus
from pumice.controllers.runtime.acts import NOTHING, Delete, Emit, Patch
from pumice.controllers.runtime.objects import Metadata
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


def patches(seen: Seen) -> dict[str, Any]:
    """What is written to the object and to its status, merged."""
    found: dict[str, Any] = {}
    for stage in reconcile(seen).stages:
        for act in stage:
            if isinstance(act, Patch):
                found |= act.body
    return found


def events(seen: Seen) -> list[tuple[str, bool]]:
    acts = [act for stage in reconcile(seen).stages for act in stage]
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
    seen = Seen(queue(state=state), queue("root", "Open", ""), False, commands, groups)
    assert patches(seen).get("status", {}).get("state", state) == follows


def test_a_steady_queue_is_left_alone() -> None:
    assert reconcile(Seen(queue(state="Open"), queue("root", "Open"))).stages == ()


def test_a_queue_without_a_parent_gets_the_root() -> None:
    assert patches(Seen(queue(parent="", state="Open")))["spec"] == {"parent": "root"}
    assert "spec" not in patches(Seen(queue("root", parent="")))


def test_a_closed_parent_closes_and_an_open_one_opens_what_it_closed() -> None:
    shut = queue("mid", "Closing")
    below = Seen(queue(state="Open", parent="mid"), shut, counts=ONE)
    first, second = reconcile(below).stages
    assert isinstance(first[0], Patch)
    assert isinstance(second[0], Patch)
    assert first[0].body == {"metadata": {"annotations": {CLOSED_BY_PARENT: "true"}}}
    assert second[0].body["status"]["state"] == "Closing"
    again = Seen(queue(state="Closed", parent="mid", by="true"), queue("mid", "Open"))
    assert patches(again) == {
        "metadata": {"annotations": {CLOSED_BY_PARENT: "false"}},
        "status": {"state": "Open"},
    }
    by_hand = Seen(queue(state="Closed", parent="mid"), queue("mid", "Open"))
    assert reconcile(by_hand).stages == ()


def test_what_was_closed_by_hand_is_not_marked_when_its_parent_closes() -> None:
    seen = Seen(queue(state="Closed", parent="mid"), queue("mid", "Closed"))
    assert reconcile(seen).stages == ()


def test_a_queue_below_a_closed_one_cannot_be_opened() -> None:
    seen = Seen(queue(state="Closed", parent="mid"), queue("mid", "Closed"), False,
                (command("OpenQueue"),))  # fmt: skip
    assert events(seen) == [("OpenQueue", True)]
    assert patches(seen) == {}
    waits = Seen(seen.queue, seen.parent, True, seen.commands)
    assert reconcile(waits) == NOTHING


def test_the_root_stays_open() -> None:
    seen = Seen(queue("root", "Open", ""), commands=(command("CloseQueue"),))
    assert events(seen) == [("CloseQueue", True)]
    assert patches(seen) == {}


def test_the_newest_command_counts_and_all_are_removed() -> None:
    orders = (command("CloseQueue", "a"), command("Dance", "b"), command("OpenQueue", "c"))
    seen = Seen(queue(state="Closed"), commands=orders)
    *_, last = reconcile(seen).stages
    assert [act.name for act in last if isinstance(act, Delete)] == ["a", "b", "c"]
    assert patches(seen)["status"]["state"] == "Open"
    assert events(Seen(queue(state="Open"), commands=orders[1:2])) == [("UnknownCommand", True)]


def test_counters_wait_and_the_state_does_not() -> None:
    slow = Seen(queue(state="Open"), counts={"pending": 2}, counters_seconds=0.5)
    plan = reconcile(slow)
    assert (plan.stages, plan.again_seconds) == ((), 0.5)
    now = Seen(queue(state="Open"), counts={"pending": 2, "odd": 1})
    assert patches(now) == {"status": {"pending": 2}}
    new = Seen(queue(), counts={"pending": 2}, counters_seconds=0.5)
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
