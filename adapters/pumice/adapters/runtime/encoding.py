"""Encodes ops. Each object is encoded once, even if it is sent several times.

A batch is built from encoded objects by adding the framing bytes around them, which is how protocol
buffers encode a message inside a message.
"""

from collections.abc import Sequence
from typing import Final

from pumice.adapters.runtime.objects import KindNumber
from pumice.v1.cluster_service_pb2 import ConnectRequest
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Outcome
from pumice.v1.delta_pb2 import DeltaBatch, Op, PluginData, Upsert
from pumice.v1.object_pb2 import ClusterObject, ObjectRef

# Maximum framing of one op: its tag, and a length of up to four bytes.
OP_OVERHEAD_BYTES: Final = 5
# Maximum framing of one batch: tags, lengths and a sequence number.
BATCH_OVERHEAD_BYTES: Final = 32


def object_body(cluster_object: ClusterObject) -> bytes:
    # Deterministic, so that equal objects have equal bytes.
    return cluster_object.SerializeToString(deterministic=True)


def upsert_op(kind: KindNumber, uid: str, revision: int, body: bytes) -> bytes:
    """An Op that holds an Upsert of an encoded object."""
    upsert = Upsert(kind=kind, uid=uid, revision=revision).SerializeToString()
    upsert += _field(Upsert.OBJECT_FIELD_NUMBER, body)
    return _field(Op.UPSERT_FIELD_NUMBER, upsert)


def tombstone_op(kind: KindNumber, uid: str) -> bytes:
    return Op(tombstone=ObjectRef(kind=kind, uid=uid)).SerializeToString()


def outcome_op(outcome: Outcome) -> bytes:
    return _field(Op.OUTCOME_FIELD_NUMBER, outcome.SerializeToString())


def configuration_op(configuration: Configuration) -> bytes:
    return Op(configuration=configuration).SerializeToString()


def data_op(data: PluginData) -> bytes:
    return Op(plugin_data=data).SerializeToString()


def batch_request(first_seq: int, ops: Sequence[bytes]) -> bytes:
    """A ConnectRequest that holds a DeltaBatch of encoded ops."""
    parts = [DeltaBatch(first_seq=first_seq).SerializeToString()]
    parts += [_field(DeltaBatch.OPS_FIELD_NUMBER, op) for op in ops]
    return _field(ConnectRequest.DELTA_BATCH_FIELD_NUMBER, b"".join(parts))


def _field(number: int, body: bytes) -> bytes:
    # The tag has the field number and the wire type 2, "length-delimited".
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
