"""Volume filters over all nodes at once say what they would say node by node."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodVolume
from pumice.core.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from pumice.core.model.status import TaskStatus
from pumice.core.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumePhase,
)
from tests.core.builders import GIB, node, pod, pod_group, queue
from tests.core.plugins import plain_volumes as plain
from tests.core.plugins.opened import Opened
from tests.core.plugins.verdicts import verdicts, why_nowhere

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


class RandomStorage:
    """Nodes in zones, volumes, claims and pods that use them."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.storage = plain.Storage()
        self.nodes = [self._node(i) for i in range(self.chance.randint(2, 4))]
        self._classes()
        for i in range(6):
            self._volume(f"pv{i}")
        for i in range(8):
            self._claim(f"c{i}")
        for n in self.nodes:
            if self._maybe(0.7):
                limit = self.chance.choice((-1, 1, 2))
                self.storage.csi_nodes[n.name] = CsiNode(
                    f"uid-{n.name}", n.name, (("csi.x", limit), ("csi.y", 3))
                )
            if self._maybe(0.4):
                self.storage.attachments.append(
                    VolumeAttachment(f"uid-a-{n.name}", f"a-{n.name}", "csi.x", n.name, "pv0")
                )
        self.running = [self._pod(f"old{i}", self.chance.choice(self.nodes).name) for i in range(3)]
        self.waiting = [self._pod(f"new{i}") for i in range(4)]

    def _maybe(self, likelihood: float) -> bool:
        return self.chance.random() < likelihood

    def _node(self, number: int) -> Node:
        pick = self.chance.choice
        labels = {pick((ZONE, OLD_ZONE)): pick(("z1", "z2"))} if self._maybe(0.7) else {}
        return node(f"n{number}", labels={**labels, "disk": pick(("ssd", "hdd"))})

    def _classes(self) -> None:
        ssd = NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),))
        for name, provisioner, where in (
            ("x", "csi.x", ()),
            ("y", "csi.y", (ssd,)),
            ("local", "kubernetes.io/no-provisioner", ()),
        ):
            self.storage.classes[name] = StorageClass(f"uid-{name}", name, provisioner, True, where)
        self.storage.drivers["csi.x"] = CsiDriver("uid-csi.x", "csi.x", self._maybe(0.5))
        near = LabelSelector((Requirement("disk", Operator.IN, ("hdd",)),))
        self.storage.capacities = [
            CsiStorageCapacity("uid-cap", "kube-system", "cap", "x", near, 2 * GIB),
            CsiStorageCapacity("uid-max", "kube-system", "max", "x", LabelSelector(), GIB, 0),
        ]

    def _volume(self, name: str) -> None:
        pick = self.chance.choice
        terms = (NodeSelectorTerm((Requirement("disk", Operator.IN, (pick(("ssd", "hdd")),)),)),)
        claim = pick(("", "", "", f"ns/c{self.chance.randint(0, 7)}"))
        self.storage.volumes[name] = PersistentVolume(
            f"uid-{name}",
            name,
            {pick((ZONE, OLD_ZONE)): pick(("z1", "z1__z2"))} if self._maybe(0.4) else {},
            pick((VolumePhase.AVAILABLE, VolumePhase.AVAILABLE, VolumePhase.RELEASED)),
            pick(("x", "y", "local")),
            pick(("", "", "gold")),
            pick((1, 2, 4)) * GIB,
            pick((("RWO",), ("RWO", "RWX"))),
            self._maybe(0.1),
            pick((None, terms)),
            pick(("", "csi.x", "csi.y")),
            f"handle-{name}",
            claim,
            pick(("", f"uid-{claim.rpartition('/')[2]}", "other")) if claim else "",
            self._maybe(0.1),
        )

    def _claim(self, name: str) -> None:
        pick = self.chance.choice
        bound = pick(("", "", f"pv{self.chance.randint(0, 6)}"))
        gold = LabelSelector((Requirement(ZONE, Operator.EXISTS),))
        self.storage.claims[f"ns/{name}"] = PersistentVolumeClaim(
            f"uid-{name}",
            "ns",
            name,
            VolumePhase.BOUND if bound else VolumePhase.PENDING,
            bound,
            pick(("x", "y", "local")),
            "",
            pick((0, 1, 2, 3)) * GIB,
            pick((("RWO",), ("RWX",))),
            False,
            pick((None, None, gold)),
            bool(bound),
            pick(("", "", "", "n0")) if not bound else "",
        )

    def _pod(self, name: str, on: str = "") -> Pod:
        names = self.chance.sample([f"c{i}" for i in range(8)], self.chance.randint(1, 3))
        volumes = tuple(PodVolume(claim) for claim in names)
        return pod(name, "g", on=on, spec={"volumes": volumes})

    def opened(self) -> Opened:
        s = self.storage
        return Opened(
            queue(),
            pod_group("g"),
            *self.nodes,
            *s.volumes.values(),
            *s.claims.values(),
            *s.classes.values(),
            *s.drivers.values(),
            *s.csi_nodes.values(),
            *s.capacities,
            *s.attachments,
            *self.running,
            *self.waiting,
            plugins=["predicates"],
        )

    def on(self, name: str) -> list[Pod]:
        return [p for p in self.running if p.node_name == name]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_every_node_gives_the_reasons_of_the_plain_volume_filters(seed: int) -> None:
    world = RandomStorage(seed)
    opened = world.opened()
    for incoming in world.waiting:
        if why_nowhere(opened, incoming.name) is not None:
            continue
        expected = {
            n.name: plain.verdict(world.storage, incoming, n, world.on(n.name)) for n in world.nodes
        }
        assert verdicts(opened, incoming.name) == expected


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_what_a_placement_takes_is_not_there_for_the_next(seed: int) -> None:
    world = RandomStorage(seed)
    opened = world.opened()
    session, storage = opened.session, world.storage
    for incoming in world.waiting:
        if why_nowhere(opened, incoming.name) is not None:
            continue
        answers = {
            n.name: plain.verdict(storage, incoming, n, world.on(n.name)) for n in world.nodes
        }
        assert verdicts(opened, incoming.name) == answers
        good = [n for n in world.nodes if not answers[n.name]]
        if not good:
            continue
        chosen = world.chance.choice(good)
        _, picks = plan = plain.plan(storage, incoming, chosen)
        assert plan[0] == []
        assert (
            session.moves.place(opened.task(incoming.name), chosen.name, TaskStatus.ALLOCATED) == []
        )
        attached = session.outbox._volumes.get(f"uid-{incoming.name}", ())
        assert {c.claim: c.volume_name for c in attached} == picks
        world.running.append(replace(incoming, node_name=chosen.name))
        for claim_name, volume_name in picks.items():
            key = f"ns/{claim_name}"
            claim = storage.claims[key]
            if volume_name:
                volume = storage.volumes[volume_name]
                storage.volumes[volume_name] = replace(volume, claim_key=key, claim_uid=claim.uid)
            else:
                storage.claims[key] = replace(claim, selected_node=chosen.name)
