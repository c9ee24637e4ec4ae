"""Converts ops to the engine's deltas."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.deltas import Deleted, Delta, OutcomeCode, OutcomeReported, Upserted
from pumice.core.errors import ObjectError
from pumice.server.wire.fields import FieldError, enum_value
from pumice.server.wire.objects import READ_KINDS, ObjectReader, key_of, kind_type, kind_word
from pumice.server.wire.plugin_data import read_plugin_data
from pumice.server.wire.unknown_values import UnknownValue
from pumice.v1 import decision_pb2, delta_pb2, object_pb2

_OUTCOMES = {
    decision_pb2.OUTCOME_CODE_APPLIED: OutcomeCode.APPLIED,
    decision_pb2.OUTCOME_CODE_CONFLICT: OutcomeCode.CONFLICT,
    decision_pb2.OUTCOME_CODE_GONE: OutcomeCode.GONE,
    decision_pb2.OUTCOME_CODE_RETRYING: OutcomeCode.RETRYING,
    decision_pb2.OUTCOME_CODE_FAILED: OutcomeCode.FAILED,
}
# Numbers of kinds, which are the numbers of the fields.
_KINDS = {field.name: field.number for field in object_pb2.ClusterObject.DESCRIPTOR.fields}
_OUTCOME_NUMBERS = {code: number for number, code in _OUTCOMES.items()}


def read_outcome(message: decision_pb2.Outcome) -> OutcomeReported:
    if not message.decision_id:
        raise ObjectError("Outcome", "?", "decision_id", "is empty; every outcome needs one")
    try:
        code = enum_value("code", message.code, _OUTCOMES)
    except FieldError as error:
        raise ObjectError("Outcome", message.decision_id, error.field, error.problem) from error
    return OutcomeReported(message.decision_id, code, message.reason)


def write_outcome(outcome: OutcomeReported) -> decision_pb2.Outcome:
    return decision_pb2.Outcome(
        decision_id=outcome.decision_id,
        code=_OUTCOME_NUMBERS[outcome.code],
        reason=outcome.reason,
    )


def read_tombstone(message: object_pb2.ObjectRef) -> Deleted | None:
    """None: a kind that the engine does not hold."""
    if not message.uid:
        raise ObjectError(kind_word(message.kind), "?", "uid", "is empty; a tombstone needs one")
    kind = kind_type(message.kind)
    return None if kind is None else Deleted(kind, message.uid)


class DeltaReader:
    """Reads ops; its only state is a cache of pod specs."""

    def __init__(self, objects: ObjectReader | None = None) -> None:
        self._objects = ObjectReader() if objects is None else objects

    def read(self, op: delta_pb2.Op) -> Delta | None:
        """None for a configuration, and for kinds and ops that the engine does not know."""
        match op.WhichOneof("op"):
            case "upsert":
                return self._upsert(op.upsert)
            case "tombstone":
                return read_tombstone(op.tombstone)
            case "outcome":
                return read_outcome(op.outcome)
            case "plugin_data":
                return read_plugin_data(op.plugin_data)
            case _:
                return None

    def _upsert(self, upsert: delta_pb2.Upsert) -> Upserted | None:
        if upsert.kind not in READ_KINDS:
            return None
        check_upsert(upsert)
        value = self._objects.read(upsert.object)
        return None if value is None else Upserted(value)


def write_upsert(message: object_pb2.ClusterObject, revision: int) -> delta_pb2.Upsert:
    kind, uid, _ = object_ref(message)
    number = object_pb2.Kind.ValueType(kind)
    return delta_pb2.Upsert(kind=number, uid=uid, revision=revision, object=message)


def check_upsert(upsert: delta_pb2.Upsert) -> None:
    """Raises ObjectError if kind or uid differ from those of the object."""
    message, uid = upsert.object, upsert.uid
    field = message.WhichOneof("object")
    if uid and field and _KINDS[field] == upsert.kind and getattr(message, field).uid == uid:
        return
    kind, uid, key = object_ref(message)
    word = kind_word(upsert.kind)
    if not upsert.uid:
        raise ObjectError(word, key or "?", "uid", "is empty; every object needs one")
    if kind != upsert.kind:
        held = f"the object is a {kind_word(kind)}" if kind else "the object is missing"
        raise ObjectError(word, key or upsert.uid, "kind", f"is {word}, but {held}")
    if uid != upsert.uid:
        problem = f"is {upsert.uid!r}, but the object's is {uid!r}; they must be the same"
        raise ObjectError(word, key, "uid", problem)


def op_ref(op: delta_pb2.Op) -> tuple[int, str, str]:
    """Kind, uid and key of the object of an op; zero and empty: no object."""
    match op.WhichOneof("op"):
        case "upsert":
            return op.upsert.kind, op.upsert.uid, object_ref(op.upsert.object)[2]
        case "tombstone":
            return op.tombstone.kind, op.tombstone.uid, ""
        case "outcome":
            return object_pb2.KIND_UNSPECIFIED, "", op.outcome.decision_id
        case "plugin_data":
            key = f"{op.plugin_data.plugin}/{op.plugin_data.name}"
            return object_pb2.KIND_UNSPECIFIED, "", key
        case _:
            return object_pb2.KIND_UNSPECIFIED, "", ""


def object_ref(message: object_pb2.ClusterObject) -> tuple[int, str, str]:
    """Kind, uid and key of an object, even of a kind that the engine does not hold."""
    field = message.WhichOneof("object")
    if field is None:
        return object_pb2.KIND_UNSPECIFIED, "", ""
    held = getattr(message, field)
    return message.DESCRIPTOR.fields_by_name[field].number, held.uid, key_of(held)


def write_warnings(
    seq: int, upsert: delta_pb2.Upsert, unknown: Iterable[UnknownValue]
) -> list[object_pb2.ObjectWarning]:
    """Warnings for the adapter about enum values that this core does not know."""
    key = object_ref(upsert.object)[2]
    return [
        object_pb2.ObjectWarning(
            seq=seq, kind=upsert.kind, uid=upsert.uid, key=key, field=field, message=problem
        )
        for field, problem in unknown
    ]


def write_rejected(seq: int, op: delta_pb2.Op, error: ObjectError) -> object_pb2.RejectedObject:
    """An op with an object that cannot be used, for the Ack."""
    kind, uid, key = op_ref(op)
    return object_pb2.RejectedObject(
        seq=seq,
        kind=object_pb2.Kind.ValueType(kind),
        uid=uid,
        key=key,
        field=error.field,
        reason=error.problem,
    )
