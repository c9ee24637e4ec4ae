"""Converts protocol messages into the engine's values and back."""

from pumice.server.wire.decisions import (
    decision_batches,
    read_decision,
    read_gang,
    write_decision,
    write_decisions,
    write_gang,
)
from pumice.server.wire.deltas import (
    check_upsert,
    object_ref,
    op_ref,
    read_outcome,
    read_plugin_data,
    read_tombstone,
    write_plugin_data,
    write_upsert,
    write_warnings,
)
from pumice.server.wire.objects import (
    READ_KINDS,
    ObjectReader,
    kind_number,
    kind_type,
    kind_word,
    write_object,
)
from pumice.server.wire.specs import SpecTable
from pumice.server.wire.statuses import (
    question_batches,
    status_batches,
    write_event,
    write_fault,
    write_reason,
    write_status,
    write_timing,
    write_wait,
)

__all__ = [
    "READ_KINDS",
    "ObjectReader",
    "SpecTable",
    "check_upsert",
    "decision_batches",
    "kind_number",
    "kind_type",
    "kind_word",
    "object_ref",
    "op_ref",
    "question_batches",
    "read_decision",
    "read_gang",
    "read_outcome",
    "read_plugin_data",
    "read_tombstone",
    "status_batches",
    "write_decision",
    "write_decisions",
    "write_event",
    "write_fault",
    "write_gang",
    "write_object",
    "write_plugin_data",
    "write_reason",
    "write_status",
    "write_timing",
    "write_upsert",
    "write_wait",
    "write_warnings",
]
