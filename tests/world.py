"""A cluster for tests: the engine, with decisions that are applied after each session."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pumice.client.reasons import Reason, merge_tasks
from pumice.core.cache.settings import CacheSettings
from pumice.core.configuration import read_configuration
from pumice.core.decisions import (
    Bind,
    Evict,
    PodConditionChanged,
    PodGateLifted,
    PodGroupStatusChanged,
    SessionResult,
)
from pumice.core.deltas import ClusterObject, Deleted, Delta, Upserted
from pumice.core.engine import Engine, Rejection
from pumice.core.model.group import PodGroup
from pumice.core.model.pod import Pod, PodCondition, PodPhase
from pumice.core.registry import Registry
from pumice.manifests import translate
from pumice.server.wire import ObjectReader, write_reason

START_NS = 1_794_744_000 * 10**9  # 2026-11-15T12:00:00Z
SECOND_NS = 10**9


def make_engine(
    actions: str, plugins: Iterable[Iterable[Any]] = (), settings: CacheSettings | None = None
) -> Engine:
    """An engine from action names and tiers of plugins: names, or entries of a configuration."""
    registry = Registry()
    tiers = [
        {"plugins": [{"name": p} if isinstance(p, str) else p for p in tier]} for tier in plugins
    ]
    data = {"actions": actions, "tiers": tiers}
    return Engine(read_configuration(data, registry.catalog()), settings, registry)


def read_object(manifest: Mapping[str, Any]) -> ClusterObject:
    """A manifest as a value of the engine, translated like every object."""
    message = translate(manifest)
    assert message is not None, f"{manifest['kind']} is not read"
    value = ObjectReader().read(message)
    assert value is not None
    return value


def read_delta(kind: str, row: Any) -> Delta:
    """A delta of a replay: ``upsert`` with a manifest, or ``delete`` with kind and uid."""
    if kind == "upsert":
        return Upserted(read_object(row))
    types = {kind.__name__: kind for kind in get_args(ClusterObject)}
    return Deleted(types[row["kind"]], row["uid"])


class Cluster:
    """Objects and an engine that gets their changes.

    Bound pods run, evicted pods are gone, statuses have been written back; nothing else happens.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.objects: dict[tuple[type[ClusterObject], str], ClusterObject] = {}

    # What the outside does.

    def put(self, *objects: ClusterObject) -> tuple[Rejection, ...]:
        for item in objects:
            self.objects[type(item), item.uid] = item
        return self.engine.apply([Upserted(item) for item in objects])

    def take(self, kind: type[ClusterObject], uid: str) -> None:
        del self.objects[kind, uid]
        self.engine.apply([Deleted(kind, uid)])

    def pods(self) -> list[Pod]:
        return [item for item in self.objects.values() if isinstance(item, Pod)]

    def groups(self) -> list[PodGroup]:
        return [item for item in self.objects.values() if isinstance(item, PodGroup)]

    # What the engine does.

    def cycle(self, now_ns: int = START_NS) -> SessionResult:
        """Runs one session and applies its decisions."""
        result = self.engine.schedule(now_ns)
        self._obey(result)
        self._write(result)
        return result

    def _obey(self, result: SessionResult) -> None:
        for decision in result.decisions:
            pod = self.objects[Pod, decision.uid]
            assert isinstance(pod, Pod)
            match decision:
                case Bind():
                    said = {**pod.annotations, **dict(decision.annotations)}
                    running = dataclasses.replace(
                        pod, node_name=decision.node, phase=PodPhase.RUNNING, annotations=said
                    )
                    self.put(running)
                case Evict():
                    self.take(Pod, decision.uid)

    def _write(self, result: SessionResult) -> None:
        for change in result.statuses:
            match change:
                case PodGroupStatusChanged():
                    group = self.objects[PodGroup, change.uid]
                    assert isinstance(group, PodGroup)
                    self.put(dataclasses.replace(group, status=change.status))
                case PodGateLifted():
                    pod = self.objects[Pod, change.uid]
                    assert isinstance(pod, Pod)
                    gates = tuple(g for g in pod.spec.scheduling_gates if g != change.gate)
                    spec = dataclasses.replace(pod.spec, scheduling_gates=gates)
                    self.put(dataclasses.replace(pod, spec=spec))
                case PodConditionChanged() if (Pod, change.uid) in self.objects:
                    pod = self.objects[Pod, change.uid]
                    assert isinstance(pod, Pod)
                    self.put(_with_condition(pod, change))


def _with_condition(pod: Pod, change: PodConditionChanged) -> Pod:
    kept = tuple(c for c in pod.conditions if c.type != "PodScheduled")
    new = PodCondition("PodScheduled", "False", change.reason, change.message)
    return dataclasses.replace(
        pod,
        conditions=(*kept, new),
        nominated_node_name=change.nominated_node_name or pod.nominated_node_name,
    )


def lines(result: SessionResult) -> list[str]:
    """The output of a session: waiting jobs with their reasons, then the decisions."""
    said = [
        f"wait {wait.job.rpartition('/')[2]} {reason}"
        for wait in result.waits
        for reason in merge_tasks(Reason.from_proto(write_reason(each)) for each in wait.reasons)
    ]
    said += [f"fault {fault.author} in {fault.where}: {fault.error}" for fault in result.faults]
    said += [str(decision) for decision in result.decisions]
    return said
