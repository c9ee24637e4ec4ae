"""Requests for trials, and what comes back."""

from typing import Any

from pumice.v1 import object_pb2
from pumice.v1.scheduling_service_pb2 import (
    ClusterSource,
    InlineSource,
    ObjectSet,
    ScheduleRequest,
    ScheduleResponse,
)
from tests.server.running import RunningCore


def object_set(*items: object_pb2.ClusterObject) -> ObjectSet:
    return ObjectSet(other_objects=items)


def inline(id_: str, *items: object_pb2.ClusterObject, **fields: Any) -> ScheduleRequest:
    source = InlineSource(objects=object_set(*items))
    return ScheduleRequest(request_id=id_, inline=source, **fields)


def live(id_: str, *items: object_pb2.ClusterObject, **fields: Any) -> ScheduleRequest:
    source = ClusterSource(
        cluster=fields.pop("cluster", ""),
        hypothetical=object_set(*items),
        removed=fields.pop("removed", ()),
    )
    return ScheduleRequest(request_id=id_, cluster=source, **fields)


async def schedule(core: RunningCore, request: ScheduleRequest) -> ScheduleResponse:
    response: ScheduleResponse = await core.scheduling().Schedule(request, timeout=60)
    return response


def binds(response: ScheduleResponse) -> dict[str, str]:
    return {d.bind.name: d.bind.node for d in response.decisions if d.HasField("bind")}
