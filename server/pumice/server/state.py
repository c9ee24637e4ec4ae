"""The state of a cluster: its engine, its configuration and its digests.

It uses no clock, thread or socket. Owners of clusters and in-process cores call it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from pumice.core.decisions import Bind, Decision, SessionResult, Wait
from pumice.core.deltas import Delta, Upserted
from pumice.core.engine import Engine, Rejection
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.registry import Registry
from pumice.core.session.timings import Stopwatch, Timings
from pumice.server.configuration import ConfigurationRefusedError, EffectiveConfiguration, read
from pumice.server.digests import KindSums
from pumice.server.object_sizes import LargeObjects
from pumice.server.ops import NumberedOp, NumberedPods
from pumice.server.wire import read_tombstone
from pumice.v1 import cluster_service_pb2, configuration_pb2, object_pb2

_MISSING = ReasonCode.CAPABILITY_MISSING
_kind = object_pb2.Kind.ValueType
_POD = object_pb2.KIND_POD
NO_LARGE_OPS: Mapping[int, int] = {}
ALL_CAPABILITIES = frozenset(cluster_service_pb2.Capability.values())


class ClusterState:
    """Applies ops, holds the configuration and runs sessions."""

    def __init__(
        self, registry: Registry, id_prefix: str = "", stopwatch: Stopwatch | None = None
    ) -> None:
        """With a stopwatch, sessions measure the time of actions and plugins."""
        self._registry = registry
        self._id_prefix = id_prefix
        self.engine = Engine(registry=registry, id_prefix=id_prefix)
        self.engine.timings = Timings(stopwatch)
        self.effective: EffectiveConfiguration | None = None
        # The last configuration, if it was refused.
        self.refused: configuration_pb2.Configuration | None = None
        self.refused_problems: tuple[configuration_pb2.ConfigurationProblem, ...] = ()
        self.applied_seq = 0
        self.sums = KindSums()
        self.large_objects = LargeObjects()
        # Rejected objects that were neither corrected nor deleted.
        self.quarantined: dict[tuple[int, str], object_pb2.RejectedObject] = {}
        self.capabilities: frozenset[int] = ALL_CAPABILITIES

    def inherit(self, old: ClusterState) -> None:
        """Takes over the configuration, the capabilities and the plugin times of an old state."""
        self.engine.session = old.engine.session
        self.engine.timings = old.engine.timings
        self.engine.cache.plugin_times.update(old.engine.cache.plugin_times)
        self.capabilities = old.capabilities
        if old.effective is not None:
            self._use(old.effective)

    def successor(self, first_seq: int) -> ClusterState:
        """The empty state at the first op of a complete snapshot."""
        new = ClusterState(self._registry, self._id_prefix)
        new.inherit(self)
        new.applied_seq = first_seq - 1
        return new

    def copy(self) -> ClusterState:
        """A copy that continues like this state. Not allowed during a session."""
        new = ClusterState(self._registry, self._id_prefix)
        new.inherit(self)
        new.engine.timings = Timings()
        new.applied_seq = self.applied_seq
        new.engine.restore(self.engine.checkpoint())
        return new

    @property
    def config_hash(self) -> str:
        return "" if self.effective is None else self.effective.hash

    # The configuration.

    def configure(
        self, message: configuration_pb2.Configuration, seq: int = 0
    ) -> cluster_service_pb2.ConfigurationResult:
        """Uses a valid configuration from the next session on. An invalid one changes nothing."""
        result = cluster_service_pb2.ConfigurationResult(seq=seq)
        try:
            effective = read(message, self._registry)
        except ConfigurationRefusedError as error:
            self.refused, self.refused_problems = message, error.problem_messages
            result.problems.extend(error.problem_messages)
        else:
            self.refused, self.refused_problems = None, ()
            self._use(effective)
            result.accepted = True
            result.problems.extend(effective.warnings)
        result.effective_config_hash = self.config_hash
        return result

    def _use(self, effective: EffectiveConfiguration) -> None:
        self.effective = effective
        self.engine.change_settings(effective.settings)
        self.engine.configure(effective.scheduler)
        self._set_deadline()

    def set_capabilities(self, capabilities: Iterable[int]) -> None:
        self.capabilities = frozenset(capabilities)
        self._set_deadline()

    def _set_deadline(self) -> None:
        deadline = None if self.effective is None else self.effective.gang_bind_deadline_ns
        can_evict = cluster_service_pb2.CAPABILITY_EVICT in self.capabilities
        self.engine.gang_bind_deadline_ns = deadline if can_evict else None

    # Ops.

    def apply(
        self, ops: Iterable[NumberedOp], now_ns: int, large: Mapping[int, int] = NO_LARGE_OPS
    ) -> tuple[list[object_pb2.RejectedObject], list[cluster_service_pb2.ConfigurationResult]]:
        """Applies ops in order; returns rejected objects and the results of configurations."""
        rejected: list[object_pb2.RejectedObject] = []
        results = []
        waiting: list[NumberedOp] = []
        for op in ops:
            if op.configuration is None:
                waiting.append(op)
                continue
            rejected += self._flush(waiting, now_ns, large)
            waiting = []
            results.append(self.configure(op.configuration, op.seq))
            self.applied_seq = max(self.applied_seq, op.seq)
        rejected += self._flush(waiting, now_ns, large)
        return rejected, results

    def _count(self, ops: Iterable[NumberedOp]) -> None:
        """Updates the sequence number and the digests."""
        seq, sums = self.applied_seq, self.sums
        uids: list[str] = []
        revisions: list[int] = []
        for op in ops:
            seq = max(seq, op.last_seq)
            if isinstance(op, NumberedPods):
                uids += [pod.uid for pod in op.pods]
                revisions += op.revisions
            elif op.uid:
                if op.kind == _POD:
                    # Pods are counted in the order of their ops.
                    sums.put_many(_POD, uids, revisions)
                    uids, revisions = [], []
                if op.revision:
                    sums.put(op.kind, op.uid, op.revision)
                else:
                    sums.drop(op.kind, op.uid)
        sums.put_many(_POD, uids, revisions)
        self.applied_seq = seq

    def resynced(
        self, kinds: Collection[int], ops: list[NumberedOp], now_ns: int
    ) -> list[NumberedOp]:
        """The ops of a snapshot of some kinds, and deletions of the objects that it lacks."""
        if _POD in kinds:
            self.engine.forget_all(now_ns)
        present = {(one.kind, one.uid) for op in ops for one in op.each() if one.revision}
        gone = [
            NumberedOp(
                0, kind, uid, delta=read_tombstone(object_pb2.ObjectRef(kind=_kind(kind), uid=uid))
            )
            for kind in sorted(kinds)
            for uid in self.sums.uids(kind)
            if (kind, uid) not in present
        ]
        return [*gone, *ops]

    def _flush(
        self, ops: list[NumberedOp], now_ns: int, large: Mapping[int, int]
    ) -> list[object_pb2.RejectedObject]:
        self._count(ops)
        self.large_objects.apply(ops, large)
        found = [op.rejected(op.error) for op in ops if op.error is not None]
        deltas = [op.delta for op in ops if op.delta is not None]
        refused = self.engine.apply(deltas, now_ns)
        if refused:
            found += _rejected_objects(refused, ops)
        if self.quarantined:
            for op in ops:
                for one in op.each():
                    self.quarantined.pop((one.kind, one.uid), None)
        for rejected in found:
            if rejected.uid:
                self.quarantined[rejected.kind, rejected.uid] = rejected
        return found

    # Sessions.

    def expire(self, now_ns: int) -> list[str]:
        """Expires old decisions without an outcome; returns the uids of their pods."""
        if self.effective is None:
            return []
        return self.engine.expire(now_ns - 2 * self.effective.apply_timeout_ns, now_ns)

    def session(self, now_ns: int) -> SessionResult:
        result = self.engine.schedule(now_ns)
        refused = [d for d in result.decisions if not self._is_supported(d)]
        return self._without(result, refused) if refused else result

    def _is_supported(self, decision: Decision) -> bool:
        return self.capabilities.issuperset(self._needed_capabilities(decision))

    def _needed_capabilities(self, decision: Decision) -> list[int]:
        """The capabilities that an adapter needs to apply a decision."""
        if not isinstance(decision, Bind):
            return [cluster_service_pb2.CAPABILITY_EVICT]
        needed: list[int] = []
        if decision.volumes:
            needed.append(cluster_service_pb2.CAPABILITY_VOLUMES)
        task = self.engine.cache.tasks.get(decision.uid)
        if task is not None and task.class_.spec.resource_claims:
            needed.append(cluster_service_pb2.CAPABILITY_RESOURCE_CLAIMS)
        if any(choice.requests for choice in decision.claims):
            needed.append(cluster_service_pb2.CAPABILITY_EXTENDED_RESOURCE_CLAIMS)
        if decision.device is not None:
            needed.append(cluster_service_pb2.CAPABILITY_SHARED_DEVICES)
        return needed

    def _without(self, result: SessionResult, refused: Collection[Decision]) -> SessionResult:
        """Undoes decisions that the adapter cannot apply, and the others of their gangs."""
        gangs = {d.gang.id: d.gang.job for d in refused if d.gang}
        ids = {d.id for d in refused}
        out = [d for d in result.decisions if d.id in ids or (d.gang and d.gang.id in gangs)]
        self.engine.refuse(out, _MISSING, result.now_ns)
        gone = {d.id for d in out}
        waits = {wait.job: wait for wait in result.waits}
        for job in sorted(set(gangs.values())):
            reasons = waits[job].reasons if job in waits else ()
            waits[job] = Wait(job, (*reasons, Reason("core", _MISSING)))
        return replace(
            result,
            decisions=tuple(d for d in result.decisions if d.id not in gone),
            waits=tuple(waits[job] for job in sorted(waits)),
        )


def _rejected_objects(
    refused: Iterable[Rejection], ops: Iterable[NumberedOp]
) -> list[object_pb2.RejectedObject]:
    """The rejections of the engine, as messages with the sequence numbers of their ops."""
    single_ops = {id(_subject(single.delta)): single for op in ops for single in op.each()}
    return [single_ops[id(_subject(r.delta))].rejected(r.error) for r in refused]


def _subject(delta: Delta | None) -> object:
    """The object of a delta if it has one, otherwise the delta; used as identity."""
    return delta.object if isinstance(delta, Upserted) else delta
