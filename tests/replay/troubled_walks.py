"""Random histories in which everything happens that a core remembers beside the objects.

Adapters come back, with some decisions or none; kinds and whole clusters are told again; the
configuration changes; objects are set aside; decisions have no outcome; people close queues,
change priorities and quotas, and delete what they made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pumice.server.wire import write_upsert
from pumice.server.wire.times import timestamp
from pumice.v1 import cluster_service_pb2, decision_pb2, delta_pb2, group_pb2, object_pb2
from tests.replay.walks import Walk
from tests.server.running import SECOND, START, configuration, node, queue

TROUBLED = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: sla
    arguments:
      sla-waiting-time: 12s
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: resourcequota
  - name: SHARES
  - name: nodeorder
"""
CONFS = [TROUBLED.replace("SHARES", "proportion"), TROUBLED.replace("SHARES", "capacity")]
_ALL = cluster_service_pb2.Capability.values()
_MODES = cluster_service_pb2.WelcomeMode
_Kind = object_pb2.Kind


def configured(conf: str) -> dict[str, Any]:
    """A configuration under which decisions expire and broken gangs are given up."""
    held = configuration(conf).configuration
    held.apply_timeout.FromMilliseconds(1500)
    held.gang_bind_deadline.FromSeconds(4)
    return {
        "apply_timeout": held.apply_timeout,
        "gang_bind_deadline": held.gang_bind_deadline,
    }


class TroubledWalk(Walk):
    """A Walk with all sorts of trouble between its sessions."""

    def __init__(self, seed: int) -> None:
        self._told: dict[tuple[int, str], object_pb2.ClusterObject] = {}
        super().__init__(seed, CONFS[seed % 2], **configured(CONFS[0]))
        self._held: frozenset[str] | None = None
        self._first += self._upserts(
            [
                *(_priority_class(name, value) for name, value in (("low", 1), ("high", 9))),
                _budget("shield", 1),
            ]
        )

    # What is told is kept, to be told again.

    def _upserts(self, objects: Iterable[object_pb2.ClusterObject]) -> list[delta_pb2.Op]:
        ops = super()._upserts(list(objects))
        for op in ops:
            self._told[_key(op.upsert.object)] = op.upsert.object
        return ops

    def take(self, ops: Any) -> None:
        for op in ops:
            if op.HasField("tombstone"):
                self._told.pop((op.tombstone.kind, op.tombstone.uid), None)
        super().take(ops)

    # Sessions.

    def session(self) -> None:
        self.now_ns += 1
        if self._held is not None:
            self.state.engine.forget_lost(self._held, self.now_ns)
            self._held = None
        super().session()

    def _happenings(self) -> list[delta_pb2.Op]:
        ops = super()._happenings()
        for chance, happens in self._troubles():
            if self.rng.random() < chance:
                ops += happens()
        self._disturb(ops)
        return []

    def _troubles(self) -> list[tuple[float, Callable[[], list[delta_pb2.Op]]]]:
        return [
            (0.2, self._priority_changes),
            (0.2, self._quota_changes),
            (0.1, self._queue_changes),
            (0.1, self._node_comes_or_goes),
            (0.15, self._group_echoes),
            (0.15, self._pods_echo),
            (0.1, self._people_delete),
            (0.1, self._spoilt_object),
            (0.08, self._other_configuration),
        ]

    def _disturb(self, ops: list[delta_pb2.Op]) -> None:
        """Tells what happened, the usual way or after some trouble with the stream."""
        chance = self.rng.random()
        self.take(ops)
        if chance < 0.05:
            self._relist()
        elif chance < 0.12:
            self._resume()
        elif chance < 0.2:
            kinds = [_Kind.KIND_POD, _Kind.KIND_POD_GROUP, _Kind.KIND_QUEUE]
            self._resync(self.rng.sample(kinds, 2))

    # Trouble with the stream.

    def _connected(self, mode: cluster_service_pb2.WelcomeMode.ValueType, **hello: Any) -> None:
        capabilities = _ALL if self.rng.random() < 0.7 else [cluster_service_pb2.CAPABILITY_VOLUMES]
        said = cluster_service_pb2.Hello(
            incarnation="i", epoch=1, capabilities=capabilities, **hello
        )
        welcome = cluster_service_pb2.Welcome(mode=mode)
        self.state.set_capabilities(capabilities)
        for recorder in self.recorders:
            recorder.on_connection(said, welcome, self.now_ns)

    def _relist(self) -> None:
        """Another adapter: everything is told anew, and no decision is on its way."""
        self._connected(_MODES.WELCOME_MODE_SNAPSHOT)
        self._begun([])
        self.state = self.state.successor(self._seq + 1)
        self._held, self._unseen = None, []
        Walk.take(self, self._again(lambda kind: True))
        for recorder in self.recorders:
            recorder.on_snapshot_end(self._seq, [], self.now_ns)

    def _resume(self) -> None:
        """The same adapter, which has lost some decisions on the way."""
        self._unseen = [d for d in self._unseen if self.rng.random() < 0.5]
        held = [d.id for d in self._unseen]
        self._connected(_MODES.WELCOME_MODE_RESUME, held_decision_ids=held)
        self._held = frozenset(held)

    def _resync(self, kinds: list[_Kind.ValueType]) -> None:
        self._begun(kinds)
        ops = self._again(lambda kind: kind in kinds)
        first_seq = self._seq + 1
        self._seq += len(ops)
        numbered = list(self._reader.read_ops(first_seq, ops))
        batch = delta_pb2.DeltaBatch(first_seq=first_seq, ops=ops)
        resynced = self.state.resynced(frozenset(kinds), numbered, self.now_ns)
        rejected, _ = self.state.apply(resynced, self.now_ns)
        for recorder in self.recorders:
            recorder.on_batch(batch, [], self.now_ns)
            recorder.on_snapshot_end(self._seq, rejected, self.now_ns)

    def _begun(self, kinds: list[_Kind.ValueType]) -> None:
        for recorder in self.recorders:
            recorder.on_snapshot_begin(self._seq + 1, kinds, self.now_ns)

    def _again(self, wanted: Callable[[int], bool]) -> list[delta_pb2.Op]:
        return [
            delta_pb2.Op(upsert=write_upsert(held, 2))
            for (kind, _), held in sorted(self._told.items())
            if wanted(kind)
        ]

    # Trouble with objects.

    def _priority_changes(self) -> list[delta_pb2.Op]:
        name = self.rng.choice(["low", "high"])
        if self.rng.random() < 0.3:
            return [_gone(_Kind.KIND_PRIORITY_CLASS, f"class-{name}")]
        default = self.rng.random() < 0.3
        return self._upserts([_priority_class(name, self.rng.randrange(10), default)])

    def _quota_changes(self) -> list[delta_pb2.Op]:
        if self.rng.random() < 0.3:
            return [_gone(_Kind.KIND_RESOURCE_QUOTA, "quota")]
        held = group_pb2.ResourceQuota(
            uid="quota",
            namespace="team",
            name="quota",
            hard_milli={"cpu": self.rng.choice([4_000, 20_000, 60_000])},
            used_milli={"cpu": self.rng.choice([0, 3_000])},
        )
        budget = _budget("shield", self.rng.randrange(3))
        return self._upserts([object_pb2.ClusterObject(resource_quota=held), budget])

    def _queue_changes(self) -> list[delta_pb2.Op]:
        name = self.rng.choice("ab")
        if self.rng.random() < 0.2:
            return [_gone(_Kind.KIND_QUEUE, f"queue-{name}")]
        held = queue(name, weight=self.rng.randrange(1, 5), priority=self.rng.randrange(3))
        if self.rng.random() < 0.3:
            held.queue.state = group_pb2.QUEUE_STATE_CLOSED
        return self._upserts([held])

    def _node_comes_or_goes(self) -> list[delta_pb2.Op]:
        name = f"n{self.rng.randrange(7)}"
        if self.rng.random() < 0.4:
            return [_gone(_Kind.KIND_NODE, f"node-{name}")]
        return self._upserts([node(name, self.rng.choice([4000, 9000]))])

    def _of_kind(self, kind: _Kind.ValueType) -> list[object_pb2.ClusterObject]:
        return [held for (k, _), held in sorted(self._told.items()) if k == kind]

    def _group_echoes(self) -> list[delta_pb2.Op]:
        """What was written long ago, or by somebody else, is told as if it were news."""
        groups = self._of_kind(_Kind.KIND_POD_GROUP)
        chosen = self.rng.sample(groups, min(2, len(groups)))
        for held in chosen:
            phases = group_pb2.PodGroupPhase.values()[:4]
            held.pod_group.status.phase = self.rng.choice(phases)
            held.pod_group.priority_class_name = self.rng.choice(["", "low", "high"])
            if self.rng.random() < 0.3:
                held.pod_group.sla_waiting_time.FromNanoseconds(3 * SECOND)
        return self._upserts(chosen)

    def _pods_echo(self) -> list[delta_pb2.Op]:
        waiting = [held for held in self._pods.values() if not held.pod.node_name]
        chosen = self.rng.sample(waiting, min(2, len(waiting)))
        for held in chosen:
            held.pod.nominated_node_name = self.rng.choice(["", "n1", "n9"])
        return self._upserts(chosen)

    def _people_delete(self) -> list[delta_pb2.Op]:
        groups = self._of_kind(_Kind.KIND_POD_GROUP)
        if not groups:
            return []
        group = self.rng.choice(groups).pod_group
        ops = [_gone(_Kind.KIND_POD_GROUP, group.uid)]
        for uid in sorted(self._pods):
            if self._pods[uid].pod.group_name == group.name and self.rng.random() < 0.7:
                del self._pods[uid]
                ops.append(_gone(_Kind.KIND_POD, uid))
        return ops

    def _spoilt_object(self) -> list[delta_pb2.Op]:
        held = object_pb2.ClusterObject()
        held.CopyFrom(self.rng.choice([queue("a"), node("n1")]))
        if held.HasField("queue"):
            held.queue.weight = -5
        else:
            held.node.allocatable["cpu"] = -1
        return [delta_pb2.Op(upsert=write_upsert(held, 9))]

    def _other_configuration(self) -> list[delta_pb2.Op]:
        text = self.rng.choice([*CONFS, "actions: fly"])
        extra = {} if self.rng.random() < 0.5 else {"default_queue": "b"}
        return [configuration(text, **configured(text), **extra)]

    def _carry_out(self, decision: decision_pb2.Decision) -> list[delta_pb2.Op]:
        codes = decision_pb2.OutcomeCode
        chance = self.rng.random()
        if chance < 0.1:
            code = self.rng.choice([codes.OUTCOME_CODE_CONFLICT, codes.OUTCOME_CODE_RETRYING])
            outcome = decision_pb2.Outcome(decision_id=decision.id, code=code)
            return [delta_pb2.Op(outcome=outcome)]
        if chance < 0.2:
            # Said to be done, and never seen; or never heard of again.
            code = codes.OUTCOME_CODE_APPLIED
            outcome = decision_pb2.Outcome(decision_id=decision.id, code=code)
            return [delta_pb2.Op(outcome=outcome)] if chance < 0.15 else []
        return super()._carry_out(decision)


def _key(held: object_pb2.ClusterObject) -> tuple[int, str]:
    name = held.WhichOneof("object") or ""
    return held.DESCRIPTOR.fields_by_name[name].number, getattr(held, name).uid


def _gone(kind: _Kind.ValueType, uid: str) -> delta_pb2.Op:
    return delta_pb2.Op(tombstone=object_pb2.ObjectRef(kind=kind, uid=uid))


def _priority_class(name: str, value: int, default: bool = False) -> object_pb2.ClusterObject:
    held = group_pb2.PriorityClass(
        uid=f"class-{name}", name=name, value=value, global_default=default
    )
    return object_pb2.ClusterObject(priority_class=held)


def _budget(name: str, allowed: int) -> object_pb2.ClusterObject:
    held = group_pb2.PodDisruptionBudget(
        uid=f"budget-{name}",
        namespace="team",
        name=name,
        disruptions_allowed=allowed,
        creation_time=timestamp(START),
    )
    return object_pb2.ClusterObject(pod_disruption_budget=held)
