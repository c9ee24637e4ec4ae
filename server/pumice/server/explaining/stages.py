"""The stages of scheduling a job, and the result of each in the last session."""

from __future__ import annotations

from collections.abc import Collection

from pumice.core.model.reasons import Reason, ReasonCode
from pumice.server.explaining.facts import Facts
from pumice.server.wire import write_reason
from pumice.v1 import explanation_pb2 as pb

STAGE_OF = {
    ReasonCode.QUEUE_MISSING: pb.STAGE_QUEUE,
    ReasonCode.QUEUE_NOT_OPEN: pb.STAGE_QUEUE,
    ReasonCode.QUEUE_QUOTA: pb.STAGE_QUOTA,
    ReasonCode.NAMESPACE_QUOTA: pb.STAGE_QUOTA,
    ReasonCode.NOT_ENQUEUED: pb.STAGE_ENQUEUE,
    ReasonCode.CLUSTER_OVERCOMMITTED: pb.STAGE_ENQUEUE,
    ReasonCode.QUEUE_OVERUSED: pb.STAGE_SHARE,
    ReasonCode.GANG_INVALID: pb.STAGE_GANG,
    ReasonCode.GANG_SHORT: pb.STAGE_GANG,
    ReasonCode.NO_NODE_FITS: pb.STAGE_NODES,
    ReasonCode.ROLE_FAILED: pb.STAGE_NODES,
    ReasonCode.TOPOLOGY_NOT_READY: pb.STAGE_NODES,
    ReasonCode.TIER_UNKNOWN: pb.STAGE_NODES,
    ReasonCode.NO_DOMAIN_FITS: pb.STAGE_NODES,
    ReasonCode.NO_LABEL_DOMAIN_FITS: pb.STAGE_NODES,
    ReasonCode.EXTENDER_WAITS: pb.STAGE_ENQUEUE,
    ReasonCode.GATED: pb.STAGE_NODES,
    ReasonCode.PLUGIN_FAULT: pb.STAGE_NODES,
    ReasonCode.PIPELINED: pb.STAGE_PREEMPTION,
    ReasonCode.NO_VICTIMS: pb.STAGE_PREEMPTION,
    ReasonCode.COOLING_DOWN: pb.STAGE_BINDING,
    ReasonCode.CAPABILITY_MISSING: pb.STAGE_BINDING,
}
_ORDER = tuple(stage for stage in pb.Stage.values() if stage != pb.STAGE_UNSPECIFIED)
# A stage in this table exists only if one of these actions or plugins is configured.
_NEEDS: dict[pb.Stage.ValueType, frozenset[str]] = {
    pb.STAGE_QUOTA: frozenset({"resourcequota", "proportion", "capacity"}),
    pb.STAGE_ENQUEUE: frozenset({"enqueue"}),
    pb.STAGE_SHARE: frozenset({"proportion", "capacity", "drf"}),
    pb.STAGE_GANG: frozenset({"gang"}),
    pb.STAGE_PREEMPTION: frozenset({"preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle"}),
}


def stages_of(facts: Facts, reasons: Collection[Reason]) -> list[pb.StageExplanation]:
    """All stages in order. A stage after the last one with a reason was not reached."""
    by_stage: dict[int, list[Reason]] = {}
    for reason in reasons:
        by_stage.setdefault(STAGE_OF[reason.code], []).append(reason)
    configured = {*facts.actions, *facts.plugins}
    last = max(by_stage, default=len(_ORDER) + 1)
    if any(reason.task for reason in reasons):
        # Pods of the job were tried, so the job has passed the earlier stages.
        last = max(last, pb.STAGE_NODES)
    stages = []
    for stage in _ORDER:
        if stage in by_stage:
            result = pb.STAGE_RESULT_HELD_BACK
        elif stage in _NEEDS and not _NEEDS[stage] & configured:
            result = pb.STAGE_RESULT_NOT_CONFIGURED
        elif stage < last and not (stage == pb.STAGE_PREEMPTION and not by_stage):
            result = pb.STAGE_RESULT_PASSED
        else:
            result = pb.STAGE_RESULT_NOT_REACHED
        written = [write_reason(reason) for reason in by_stage.get(stage, ())]
        stages.append(pb.StageExplanation(stage=stage, result=result, reasons=written))
    return stages
