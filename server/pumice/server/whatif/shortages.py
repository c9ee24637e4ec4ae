"""The amounts that a waiting job lacks: on nodes, in queues and in its namespace."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pumice.core.engine import Engine
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.server.explaining.facts import Facts
from pumice.v1.job_result_pb2 import Shortage

# Quotas have thousandths of every unit.
_MILLI = 1000
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_COUNTS = ("pods", "attachable-volumes-")


def shortages_of(engine: Engine, facts: Facts) -> Iterator[Shortage]:
    """The shortages of limits and then of nodes, without duplicates."""
    seen: set[bytes] = set()
    for shortage in (*_limits(engine, facts), *_nodes(engine, facts)):
        data = shortage.SerializeToString(deterministic=True)
        if data not in seen:
            seen.add(data)
            yield shortage


def _limits(engine: Engine, facts: Facts) -> Iterator[Shortage]:
    for reason in facts.reasons:
        for limit in reason.limits:
            yield Shortage(
                resource=limit.resource,
                wanted=limit.asked,
                free=max(limit.allowed - limit.used, 0),
                limit=limit.allowed,
                pod=reason.task,
                queue=limit.queue,
            )
        if reason.code is ReasonCode.NAMESPACE_QUOTA:
            yield from _quotas(engine, facts, reason)


def _quotas(engine: Engine, facts: Facts, reason: Reason) -> Iterator[Shortage]:
    job = engine.cache.jobs.get(facts.job)
    if job is None or job.group is None:
        return
    asked = dict(job.group.min_resources_milli)
    for quota in engine.cache.quotas:
        if quota.namespace != job.namespace:
            continue
        hard, used = dict(quota.hard_milli), dict(quota.used_milli)
        for name in reason.subjects:
            if name in hard and asked.get(name, 0) + used.get(name, 0) > hard[name]:
                taken = used.get(name, 0)
                yield Shortage(
                    resource=name,
                    wanted=_to_unit(name, asked.get(name, 0)),
                    free=_to_unit(name, max(hard[name] - taken, 0)),
                    limit=_to_unit(name, hard[name]),
                    quota=f"{quota.namespace}/{quota.name}",
                )


def _to_unit(name: str, milli: int) -> int:
    """Converts an amount of a quota to the unit of its resource."""
    resource = name.removeprefix("requests.").removeprefix("limits.")
    counted = resource.startswith((*_BYTES, *_COUNTS)) or name.startswith("count/")
    return milli // _MILLI if counted else milli


def _nodes(engine: Engine, facts: Facts) -> Iterator[Shortage]:
    table = engine.cache.table
    for lack in facts.too_large:
        column = table.column_of(lack.resource)
        row = None if column is None else int(np.argmax(table.allocatable[column]))
        yield Shortage(
            resource=lack.resource,
            wanted=lack.need,
            free=lack.have,
            limit=lack.have,
            pod=facts.blocking,
            largest_node="" if row is None or not lack.have else table.names[row],
        )
    if facts.too_large or not facts.nearest:
        return
    nearest = facts.nearest[0]
    row_of_nearest = table.row_of(nearest.node)
    for short in nearest.shortages:
        has, column = 0, table.column_of(short.resource)
        if row_of_nearest is not None and column is not None:
            has = int(table.allocatable[column, row_of_nearest])
        yield Shortage(
            resource=short.resource,
            wanted=short.need,
            free=max(short.have, 0),
            limit=has,
            pod=facts.blocking,
            node=nearest.node,
        )
