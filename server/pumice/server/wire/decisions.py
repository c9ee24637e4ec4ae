"""Converts decisions to protocol messages, and back for replays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pumice.core.decisions import (
    Bind,
    Decision,
    Evict,
    Gang,
    SessionResult,
    SharedDevice,
    VolumeChoice,
)
from pumice.core.model.devices import ClaimChoice, RequestMapping
from pumice.server.wire.conversion import Conversion, optional, repeated
from pumice.server.wire.devices import ALLOCATION, REQUEST
from pumice.v1 import cluster_service_pb2, decision_pb2

# Size at which a batch is complete, well below the message limit.
BATCH_BYTES = 512 * 1024


_CHOICES = repeated(
    Conversion(
        ClaimChoice,
        decision_pb2.ResourceClaimChoice,
        allocation=optional(ALLOCATION),
        requests=repeated(REQUEST),
        mappings=repeated(Conversion(RequestMapping, decision_pb2.RequestMapping)),
    )
)


def write_gang(gang: Gang) -> decision_pb2.Gang:
    return decision_pb2.Gang(
        id=gang.id,
        job=gang.job,
        pod_group_uid=gang.pod_group_uid,
        spec_hash=gang.spec_hash,
        size=gang.size,
    )


def read_gang(message: decision_pb2.Gang) -> Gang:
    return Gang(message.id, message.job, message.pod_group_uid, message.spec_hash, message.size)


def _write_bind(bind: Bind) -> decision_pb2.Bind:
    return decision_pb2.Bind(
        namespace=bind.namespace,
        name=bind.name,
        uid=bind.uid,
        node=bind.node,
        annotations=dict(bind.annotations),
        volumes=[
            decision_pb2.VolumeChoice(claim=v.claim, volume_name=v.volume_name)
            for v in bind.volumes
        ],
        resource_claims=_CHOICES.write(bind.claims),
        devices=[]
        if bind.device is None
        else [decision_pb2.SharedDevice(type=bind.device.type, node_lock=bind.device.node_lock)],
    )


def _write_evict(evict: Evict) -> decision_pb2.Evict:
    return decision_pb2.Evict(
        namespace=evict.namespace,
        name=evict.name,
        uid=evict.uid,
        node=evict.node,
        reason=evict.reason,
        for_job=evict.for_job,
    )


def write_decision(decision: Decision) -> decision_pb2.Decision:
    """Writes only the id of the gang. The caller writes the gang."""
    gang_id = decision.gang.id if decision.gang else ""
    match decision:
        case Bind():
            bind = _write_bind(decision)
            return decision_pb2.Decision(id=decision.id, gang_id=gang_id, bind=bind)
        case Evict():
            evict = _write_evict(decision)
            return decision_pb2.Decision(id=decision.id, gang_id=gang_id, evict=evict)


def read_decision(message: decision_pb2.Decision, gangs: Mapping[str, Gang]) -> Decision | None:
    """None: a type of decision that this engine does not know."""
    gang = gangs[message.gang_id] if message.gang_id else None
    match message.WhichOneof("order"):
        case "bind":
            held = message.bind
            return Bind(
                message.id,
                held.namespace,
                held.name,
                held.uid,
                held.node,
                gang,
                tuple(sorted(held.annotations.items())),
                tuple(VolumeChoice(v.claim, v.volume_name) for v in held.volumes),
                _CHOICES.read("resource_claims", held.resource_claims),
                next((SharedDevice(d.type, d.node_lock) for d in held.devices), None),
            )
        case "evict":
            order = message.evict
            return Evict(
                message.id,
                order.namespace,
                order.name,
                order.uid,
                order.node,
                order.reason,
                order.for_job,
                gang,
            )
        case _:
            return None


def write_decisions(
    decisions: Iterable[Decision],
) -> tuple[list[decision_pb2.Gang], list[decision_pb2.Decision]]:
    """The gangs of the decisions without duplicates, and the decisions."""
    gangs: dict[str, decision_pb2.Gang] = {}
    orders = []
    for decision in decisions:
        if decision.gang and decision.gang.id not in gangs:
            gangs[decision.gang.id] = write_gang(decision.gang)
        orders.append(write_decision(decision))
    return list(gangs.values()), orders


def _chunks(
    decisions: Iterable[Decision], batch_bytes: int
) -> Iterator[tuple[list[Gang], list[decision_pb2.Decision]]]:
    gangs: dict[str, Gang] = {}
    orders: list[decision_pb2.Decision] = []
    size = 0
    for decision in decisions:
        order = write_decision(decision)
        if decision.gang:
            gangs[decision.gang.id] = decision.gang
        orders.append(order)
        size += order.ByteSize()
        if size >= batch_bytes:
            yield list(gangs.values()), orders
            gangs, orders, size = {}, [], 0
    if orders:
        yield list(gangs.values()), orders


def decision_batches(
    result: SessionResult, *, epoch: int, based_on_seq: int, batch_bytes: int = BATCH_BYTES
) -> Iterator[cluster_service_pb2.DecisionBatch]:
    """The decisions of a session in batches; no batch if it decided nothing."""
    for gangs, orders in _chunks(result.decisions, batch_bytes):
        yield cluster_service_pb2.DecisionBatch(
            session=result.session,
            epoch=epoch,
            based_on_seq=based_on_seq,
            gangs=map(write_gang, gangs),
            decisions=orders,
        )
