"""Random histories with volumes: local ones, ones that are to be made, limits and rooms."""

from __future__ import annotations

from typing import Any

from pumice.server.wire.times import timestamp
from pumice.v1 import decision_pb2, delta_pb2, object_pb2, pod_pb2, selector_pb2, storage_pb2
from tests.replay.walks import Walk
from tests.server.running import GIB, SECOND, START, group, pod

# Without shares of queues: what counts here is which volumes there are.
CONF = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
_HOST = "kubernetes.io/hostname"
_DRIVER, _LOCAL = "disks.example", "kubernetes.io/no-provisioner"


def _on(name: str) -> selector_pb2.Requirement:
    return selector_pb2.Requirement(key=_HOST, operator=selector_pb2.OPERATOR_IN, values=[name])


def _object(**held: Any) -> object_pb2.ClusterObject:
    return object_pb2.ClusterObject(**held)


class VolumeWalk(Walk):
    """Every job's pods want volumes; the cluster is slow to show that they got them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, CONF)
        self._claims: dict[str, storage_pb2.PersistentVolumeClaim] = {}
        self._volumes: dict[str, storage_pb2.PersistentVolume] = {}
        self._made = 0
        for op in self._first:
            if op.upsert.object.HasField("node"):
                held = op.upsert.object.node
                held.labels[_HOST] = held.name
        self._first += self._upserts(self._storage())

    def _storage(self) -> list[object_pb2.ClusterObject]:
        nodes = [f"n{number}" for number in range(5)]
        classes = [
            storage_pb2.StorageClass(
                uid=f"class-{name}", name=name, provisioner=by, wait_for_first_consumer=True
            )
            for name, by in (("local", _LOCAL), ("made", _DRIVER))
        ]
        for name in nodes:
            for number in range(3):
                self._volume(f"disk-{name}-{number}", "local", 10 * (number + 1), name)
        driver = storage_pb2.CsiDriver(uid="driver", name=_DRIVER, publishes_capacity=True)
        return [
            *(_object(storage_class=held) for held in classes),
            *(_object(persistent_volume=held) for held in self._volumes.values()),
            _object(csi_driver=driver),
            *(
                _object(
                    csi_node=storage_pb2.CsiNode(
                        uid=f"csi-{name}", name=name, driver_limits={_DRIVER: 2, _LOCAL: -1}
                    )
                )
                for name in nodes
            ),
            *(
                _object(
                    csi_storage_capacity=storage_pb2.CsiStorageCapacity(
                        uid=f"room-{name}",
                        namespace="storage",
                        name=f"room-{name}",
                        storage_class_name="made",
                        node_selector=selector_pb2.LabelSelector(requirements=[_on(name)]),
                        capacity_bytes=50 * GIB,
                    )
                )
                for name in nodes[:4]
            ),
        ]

    def _volume(
        self, name: str, class_: str, size: int, node: str, claim: str = ""
    ) -> storage_pb2.PersistentVolume:
        terms = [selector_pb2.NodeSelectorTerm(label_requirements=[_on(node)])]
        held = self._volumes[name] = storage_pb2.PersistentVolume(
            uid=f"volume-{name}",
            name=name,
            phase=storage_pb2.VOLUME_PHASE_AVAILABLE,
            storage_class_name=class_,
            capacity_bytes=size * GIB,
            access_modes=[storage_pb2.ACCESS_MODE_READ_WRITE_ONCE],
            node_terms=selector_pb2.NodeSelector(terms=terms),
            csi_driver=_DRIVER if class_ == "made" else "",
            csi_handle=name if class_ == "made" else "",
            claim_key=claim,
        )
        return held

    # What happens.

    def _new_job(self) -> list[delta_pb2.Op]:
        self._jobs += 1
        name, size = f"job-{self._jobs:03d}", self.rng.randrange(1, 4)
        class_, created = self.rng.choice(["local", "made"]), START + self._jobs * SECOND
        made: list[object_pb2.ClusterObject] = []
        for number in range(size):
            claim = self._claims[f"{name}-{number}"] = storage_pb2.PersistentVolumeClaim(
                uid=f"claim-{name}-{number}",
                namespace="team",
                name=f"{name}-{number}",
                phase=storage_pb2.VOLUME_PHASE_PENDING,
                storage_class_name=class_,
                request_bytes=self.rng.choice([5, 15]) * GIB,
                access_modes=[storage_pb2.ACCESS_MODE_READ_WRITE_ONCE],
            )
            made.append(_object(persistent_volume_claim=claim))
        members = [
            pod(name, number, 500, creation_time=timestamp(created)) for number in range(size)
        ]
        for member in members:
            member.pod.spec.volumes.append(pod_pb2.PodVolume(claim_name=member.pod.name))
        minimum = self.rng.choice([size, 1])
        gang = group(name, minimum, queue=self.rng.choice("ab"), creation_time=timestamp(created))
        return self._upserts([*made, gang, *members])

    def _carry_out(self, decision: decision_pb2.Decision) -> list[delta_pb2.Op]:
        ops = super()._carry_out(decision)
        if not decision.HasField("bind") or len(ops) < 2:
            return ops
        shown = []
        for choice in decision.bind.volumes:
            if self.rng.random() < 0.3:
                # It is told when something else happens to the claim, or never.
                continue
            shown += self._show(choice, decision.bind.node)
        return [*self._upserts(shown), *ops]

    def _show(self, choice: decision_pb2.VolumeChoice, node: str) -> list[object_pb2.ClusterObject]:
        claim = self._claims[choice.claim]
        volume = self._volumes.get(choice.volume_name)
        if volume is None:
            self._made += 1
            volume = self._volume(f"made-{self._made}", "made", 20, node)
        volume.phase = claim.phase = storage_pb2.VOLUME_PHASE_BOUND
        volume.claim_key, volume.claim_uid = f"team/{claim.name}", claim.uid
        claim.volume_name, claim.bind_completed = volume.name, True
        return [_object(persistent_volume=volume), _object(persistent_volume_claim=claim)]
