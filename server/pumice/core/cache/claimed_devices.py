"""Devices that claims ask for, in the resources and units that queues use.

``deviceclass/<class>`` is a number of devices, and ``<capacity>.deviceclass/<class>`` is the sum of
a capacity over devices; both are in thousandths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pumice.core.model.devices import ResourceClaim
from pumice.core.model.quantities import THOUSAND, whole_units

COUNT = "deviceclass/"
_CAPACITY = ".deviceclass/"


def class_of(resource: str) -> str:
    """The device class in the name of a queue's resource; empty where there is none."""
    capacity, _, of_capacity = resource.partition(_CAPACITY)
    if capacity and of_capacity:
        return of_capacity
    return resource.removeprefix(COUNT) if resource.startswith(COUNT) else ""


def limits_by_class(amounts: Iterable[tuple[str, int]]) -> dict[str, dict[str, int]]:
    """The limits of a queue by device class; a number of devices is rounded up to whole ones."""
    found: dict[str, dict[str, int]] = {}
    for name, amount in amounts:
        if class_ := class_of(name):
            whole = whole_units(amount) * THOUSAND if name.startswith(COUNT) else amount
            found.setdefault(class_, {})[name] = whole
    return found


def claimed_devices(claims: Iterable[ResourceClaim]) -> Counter[str]:
    """What claims request; as in Volcano, without requests for alternatives or for all devices."""
    found = Counter[str]()
    for request in (request for claim in claims for request in claim.requests):
        wanted = request.exactly
        if wanted is None or wanted.takes_all:
            continue
        class_ = wanted.device_class_name
        found[f"{COUNT}{class_}"] += wanted.count * THOUSAND
        for name, amount in wanted.capacity:
            found[f"{name}{_CAPACITY}{class_}"] += wanted.count * amount
    return found


@dataclass(slots=True, eq=False)
class ClaimedAmounts:
    """The amounts of the claims that some tasks use; a claim of several tasks counts once."""

    amounts: Counter[str] = field(default_factory=Counter)
    _users: Counter[str] = field(default_factory=Counter)

    def clone(self) -> ClaimedAmounts:
        return ClaimedAmounts(self.amounts.copy(), self._users.copy())

    def counts(self, claim: ResourceClaim) -> bool:
        return self._users[claim.key] > 0

    def add(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            if not self.counts(claim):
                self.amounts.update(claimed_devices([claim]))
            self._users[claim.key] += 1

    def remove(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            if self.counts(claim):
                self._users[claim.key] -= 1
                if not self.counts(claim):
                    self.amounts.subtract(claimed_devices([claim]))
