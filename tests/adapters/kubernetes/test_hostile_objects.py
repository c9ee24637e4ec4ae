"""Whatever objects an API server sends, the adapter goes on and the other objects are served."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pumice.adapters.kubernetes.group_precedence import GroupPrecedence
from pumice.adapters.kubernetes.object_head import HEAD, UNREADABLE
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.object_store import InvalidObject, ObjectStore, WorldEventQueue
from pumice.adapters.kubernetes.resources import RESOURCES
from pumice.adapters.kubernetes.selection import Selection, Source
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ObjectGone, ObjectSeen

_META = {
    "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "1",
    "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"},
    "annotations": {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "w"},
    "ownerReferences": [{"name": "o", "uid": "x", "kind": "Job", "controller": True}],
}  # fmt: skip
_TERM = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
_TIME = "2026-01-01T00:00:00Z"
_OBJECTS: dict[str, dict[str, Any]] = {
    "Pod": {
        "spec": {
            "schedulerName": "volcano", "priority": 5, "nodeSelector": {"z": "a"},
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}
                }
            },
            "containers": [
                {
                    "name": "c",
                    "ports": [{"hostPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}],
        },
        "status": {
            "phase": "Pending",
            "startTime": _TIME,
            "conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": _TIME}],
        },
    },
    "Node": {
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": _TIME}]},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "PodGroup": {
        "spec": {"minMember": 1, "queue": "q", "minResources": {"cpu": "1"}},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Scheduled", "status": "True", "lastTransitionTime": _TIME}],
        },
    },
    "Queue": {"spec": {"weight": 1, "capability": {"cpu": "1"}}, "status": {"state": "Open"}},
    "PersistentVolume": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "claimRef": {"name": "c", "namespace": "ns", "uid": "x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_TERM]}},
        },
        "status": {"phase": "Bound"},
    },
    "PersistentVolumeClaim": {
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v"},
        "status": {"phase": "Bound"},
    },
    "Namespace": {"status": {"phase": "Active"}},
}  # fmt: skip
_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 10**40, 1.5, 1e308, "", "x" * 3000, "\x00", "é", "1e999", "-5", "NaN",
    "9999999999999999999999Ei", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999+14:00",
    [], {}, [None], [[]], {"": ""}, {"a": None}, {"k": {"k": {"k": 1}}}, -(2**63), 2**63, 2**31,
)  # fmt: skip


def places(body: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    if isinstance(body, dict):
        for key, value in body.items():
            yield from places(value, (*place, key))
    elif isinstance(body, list):
        for index, value in enumerate(body):
            yield from places(value, (*place, index))


def mutated(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy with one to three fields missing, unknown or of another type."""
    body = copy.deepcopy(body)
    for _ in range(rng.randint(1, 3)):
        *way, last = rng.choice(list(places(body)))
        held: Any = body
        for step in way:
            held = held[step]
        match rng.randrange(4):
            case 0:
                del held[last]
            case 1 if isinstance(held, dict):
                held[f"new{rng.random()}"] = copy.deepcopy(rng.choice(_ODD))
            case _:
                held[last] = copy.deepcopy(rng.choice(_ODD))
        if not body:
            break
    return body


class Receiver:
    """A store of one resource, and what comes out of it."""

    def __init__(self, name: str) -> None:
        resource = next(r for r in RESOURCES if r.name == name)
        self.queue, self.index = WorldEventQueue(), ObjectIndex()
        self.invalid: list[InvalidObject] = []
        self.store = ObjectStore(
            Source(resource),
            self.queue,
            Selection(),
            GroupPrecedence(),
            self.index,
            Metrics(),
            self.invalid.append,
        )

    def put(self, body: Any) -> None:
        raw = json.dumps(body).encode()
        try:
            head = HEAD.decode(raw)
        except UNREADABLE:
            # The reflector leaves these out.
            return
        self.store.upsert(head, msgspec.Raw(raw))


@pytest.mark.parametrize("name", sorted(_OBJECTS))
def test_no_object_stops_the_others(name: str) -> None:
    rng, receiver = random.Random(name), Receiver(name)
    good = {"metadata": _META, **_OBJECTS[name]}
    receiver.store.begin_list()
    for _ in range(1500):
        receiver.put(mutated(good, rng))
    assert receiver.invalid or name == "Namespace"
    for found in receiver.invalid:
        assert "Error" not in found.problem, found.problem
    # Every object that came out can go over the wire.
    for event in receiver.queue._events:
        assert isinstance(event, ObjectSeen | ObjectGone)
        if isinstance(event, ObjectSeen):
            event.object.SerializeToString()
    last = copy.deepcopy(good)
    last["metadata"]["uid"], last["metadata"]["name"] = "last", "last"
    before = len(receiver.queue)
    receiver.put(last)
    assert len(receiver.queue) > before


@pytest.mark.parametrize("name", sorted(_OBJECTS))
def test_fields_of_a_newer_version_are_ignored_wherever_they_are(name: str) -> None:
    good = {"metadata": _META, **_OBJECTS[name]}
    newer = copy.deepcopy(good)
    for place in list(places(good)):
        held: Any = newer
        for step in place:
            held = held[step]
        # Maps of names to values have no unknown fields.
        if isinstance(held, dict) and not {"cpu", "storage", "z", "a"} & held.keys():
            held["newField"] = {"of": ["another", {"version": 7}]}
    newer["metadata"]["annotations"].pop("newField", None)
    newer["newTopLevel"] = [1, 2]
    receiver = Receiver(name)
    receiver.put(good)
    receiver.put(newer)
    assert receiver.invalid == []
    first, second = receiver.queue._events
    assert isinstance(first, ObjectSeen)
    assert isinstance(second, ObjectSeen)
    assert first.object == second.object
