"""Converts the claims of binds, with their devices."""

from __future__ import annotations

from pumice.core.model.devices import ClaimChoice, RequestMapping
from pumice.server.wire.devices import (
    read_allocation,
    read_request,
    write_allocation,
    write_request,
)
from pumice.v1 import decision_pb2


def read_choice(message: decision_pb2.ResourceClaimChoice) -> ClaimChoice:
    has = message.HasField("allocation")
    allocation = read_allocation("allocation", message.allocation) if has else None
    return ClaimChoice(
        message.claim,
        message.claim_uid,
        allocation,
        tuple(read_request(f"requests[{i}]", m) for i, m in enumerate(message.requests)),
        tuple(RequestMapping(m.container, m.resource, m.request) for m in message.mappings),
    )


def write_choice(choice: ClaimChoice) -> decision_pb2.ResourceClaimChoice:
    allocation = choice.allocation
    return decision_pb2.ResourceClaimChoice(
        claim=choice.claim,
        claim_uid=choice.claim_uid,
        allocation=None if allocation is None else write_allocation(allocation),
        requests=map(write_request, choice.requests),
        mappings=[
            decision_pb2.RequestMapping(
                container=m.container, resource=m.resource, request=m.request
            )
            for m in choice.mappings
        ],
    )
