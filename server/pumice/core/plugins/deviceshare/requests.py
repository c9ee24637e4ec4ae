"""Requests of containers for shares of cards, and shares as texts of annotations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from pumice.core.cache.tasks import TaskClass
from pumice.core.model.quantities import THOUSAND
from pumice.core.plugins.deviceshare.cards import Choice, parse_uint32
from pumice.core.plugins.deviceshare.device_config import ResourceNames

# A whole card, in percent.
WHOLE = 100
# As in Volcano, this percentage counts as not given.
_NOT_GIVEN = 101 * THOUSAND
_SHARE_FIELDS = 4


class ContainerRequest(NamedTuple):
    """The request of one container: a number of cards, and a share of each."""

    number: int
    # None: a percentage of the card's memory.
    memory: int | None
    percentage: int
    cores: int


Requests = tuple[ContainerRequest, ...]


def requests_of(class_: TaskClass, names: ResourceNames) -> Requests | None:
    """The requests of a pod's containers; None: the pod requests no card."""
    found = tuple(
        request
        for container in class_.spec.containers
        if not container.init
        and (request := _request(dict(container.limits), dict(container.requests), names))
    )
    # Containers may request zero cards.
    return found if any(request.number for request in found) else None


def _request(
    limits: Mapping[str, int], requests: Mapping[str, int], names: ResourceNames
) -> ContainerRequest | None:
    """The request of a container; None: it has no limit for a number of cards or for memory."""
    if names.count in limits:
        count = _exact(limits[names.count])
    elif names.memory in limits:
        count = 1
    else:
        return None
    amounts = {**requests, **limits}
    memory = _exact(amounts.get(names.memory, 0))
    cores = _exact(amounts.get(names.cores, 0))
    percentage = amounts.get(names.percentage, _NOT_GIVEN)
    if not percentage % THOUSAND and percentage != _NOT_GIVEN:
        return ContainerRequest(count, None, percentage // THOUSAND, cores)
    return ContainerRequest(count, memory or None, WHOLE, cores)


def _exact(thousandths: int) -> int:
    """Whole units; an amount with a fraction counts as 0, as with ``Quantity.AsInt64``."""
    return 0 if thousandths % THOUSAND else thousandths // THOUSAND


def shares_text(names: tuple[str, ...], choice: Choice, type_: str) -> list[str]:
    """The shares of each container, as device plugins read them."""
    return [
        "".join(f"{names[s.card]}{s.part},{type_},{s.memory},{s.cores}:" for s in container)
        for container in choice.shares
    ]


@lru_cache(maxsize=16_384)
def shares_in(text: str) -> tuple[tuple[str, str, int, int], ...]:
    """Card, part, memory and cores of each share in an annotation; invalid shares are ignored."""
    found = []
    for share in text.replace(";", ":").split(":"):
        fields = share.split(",")
        if len(fields) >= _SHARE_FIELDS:
            memory, cores = parse_uint32(fields[2]), parse_uint32(fields[3])
            if memory is not None and cores is not None:
                name, bracket, part = fields[0].partition("[")
                found.append((name, bracket + part, memory, cores))
    return tuple(found)
