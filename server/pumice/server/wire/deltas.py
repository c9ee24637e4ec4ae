"""Converts ops to the engine's deltas, and checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from pumice.core.deltas import DataReported, Deleted, OutcomeCode, OutcomeReported
from pumice.core.errors import ObjectError
from pumice.server.wire.fields import FieldError, enum_value
from pumice.server.wire.objects import key_of, kind_type, kind_word
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
# Limits of one PluginData: the number of values, and the characters of all texts.
MAX_VALUES = 64
MAX_TEXT = 256 * 1024
_PLUGIN_DATA = "PluginData"


def read_outcome(message: decision_pb2.Outcome) -> OutcomeReported:
    if not message.decision_id:
        raise ObjectError("Outcome", "?", "decision_id", "is empty; every outcome needs one")
    try:
        code = enum_value("code", message.code, _OUTCOMES)
    except FieldError as error:
        raise ObjectError("Outcome", message.decision_id, error.field, error.problem) from error
    return OutcomeReported(message.decision_id, code, message.reason)


def read_tombstone(message: object_pb2.ObjectRef) -> Deleted | None:
    """None: a kind that the engine does not hold."""
    if not message.uid:
        raise ObjectError(kind_word(message.kind), "?", "uid", "is empty; a tombstone needs one")
    kind = kind_type(message.kind)
    return None if kind is None else Deleted(kind, message.uid)


def read_plugin_data(message: delta_pb2.PluginData) -> DataReported:
    key = f"{message.plugin}/{message.name}"
    if not message.plugin or not message.name:
        raise ObjectError(_PLUGIN_DATA, key, "plugin", "or name is empty; both are needed")
    values: dict[str, str | float] = {**message.numbers, **message.texts}
    if len(values) > MAX_VALUES:
        problem = f"has {len(values)} values; at most {MAX_VALUES} are allowed"
        raise ObjectError(_PLUGIN_DATA, key, "numbers", problem)
    length = sum(map(len, message.texts.values())) + sum(map(len, values))
    if length + len(message.name) > MAX_TEXT:
        raise ObjectError(_PLUGIN_DATA, key, "texts", f"is longer than {MAX_TEXT} characters")
    for name, number in sorted(message.numbers.items()):
        if not isfinite(number):
            raise ObjectError(_PLUGIN_DATA, key, f"numbers[{name}]", f"must be finite, is {number}")
    return DataReported(message.plugin, message.name, values)


def write_plugin_data(
    plugin: str, name: str, values: Mapping[str, str | float]
) -> delta_pb2.PluginData:
    message = delta_pb2.PluginData(plugin=plugin, name=name)
    for key, value in values.items():
        if isinstance(value, str):
            message.texts[key] = value
        else:
            message.numbers[key] = value
    return message


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
