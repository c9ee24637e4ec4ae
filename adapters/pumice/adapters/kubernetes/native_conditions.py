"""Converts a status to the condition of a Kubernetes PodGroup (`scheduling.k8s.io`)."""

from typing import Final

from pumice.v1.condition_pb2 import CONDITION_STATUS_TRUE
from pumice.v1.group_pb2 import (
    POD_GROUP_PHASE_COMPLETED,
    POD_GROUP_PHASE_RUNNING,
    PodGroupStatus,
)

_TYPE: Final = "PodGroupScheduled"
_STARTED: Final = (POD_GROUP_PHASE_RUNNING, POD_GROUP_PHASE_COMPLETED)


def native_condition(status: PodGroupStatus) -> dict[str, str] | None:
    """The condition PodGroupScheduled; None: the status does not determine it."""
    if status.phase in _STARTED:
        return {
            "type": _TYPE,
            "status": "True",
            "reason": "Scheduled",
            "message": "the group is scheduled",
        }
    for condition in status.conditions:
        if condition.type == "Unschedulable" and condition.status == CONDITION_STATUS_TRUE:
            return {
                "type": _TYPE,
                "status": "False",
                "reason": "Unschedulable",
                "message": condition.message,
            }
    return None
