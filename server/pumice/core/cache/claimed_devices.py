"""Devices that claims ask for, in the resources and units that queues use.

``deviceclass/<class>`` is a number of devices, and ``<capacity>.deviceclass/<class>`` is the sum of
a capacity over devices; both are in thousandths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pumice.core.model.devices import ResourceClaim
from pumice.core.model.integers import add_amount
from pumice.core.model.quantities import THOUSAND, whole_units

COUNT = "deviceclass/"
_CAPACITY = ".deviceclass/"

# Class -> resource -> amount.
ByClass = dict[str, dict[str, int]]


def class_of(resource: str) -> str:
    """The device class in the name of a queue's resource; empty where there is none."""
    capacity, _, of_capacity = resource.partition(_CAPACITY)
    if capacity and of_capacity:
        return of_capacity
    return resource.removeprefix(COUNT) if resource.startswith(COUNT) else ""


def by_class(amounts: Iterable[tuple[str, int]]) -> ByClass:
    """The amounts of device classes; a number of devices is rounded up to whole ones."""
    found: ByClass = {}
    for name, amount in amounts:
        if class_ := class_of(name):
            whole = whole_units(amount) * THOUSAND if name.startswith(COUNT) else amount
            found.setdefault(class_, {})[name] = whole
    return found


def claimed_devices(claim: ResourceClaim) -> ByClass:
    """What a claim asks for; as in Volcano, without requests for alternatives or for all devices."""
    found: ByClass = {}
    for request in claim.requests:
        wanted = request.exactly
        if wanted is None or wanted.takes_all:
            continue
        class_ = wanted.device_class_name
        amounts = found.setdefault(class_, {})
        _add(amounts, f"{COUNT}{class_}", wanted.count * THOUSAND)
        for name, amount in wanted.capacity:
            _add(amounts, f"{name}{_CAPACITY}{class_}", wanted.count * amount)
    return found


def _add(amounts: dict[str, int], name: str, amount: int) -> None:
    amounts[name] = amounts.get(name, 0) + amount


@dataclass(slots=True, eq=False)
class ClaimedAmounts:
    """The amounts of the claims that some tasks use; a claim of several tasks counts once."""

    amounts: dict[str, int] = field(default_factory=dict)
    _users: dict[str, int] = field(default_factory=dict)

    def clone(self) -> ClaimedAmounts:
        return ClaimedAmounts({**self.amounts}, {**self._users})

    def counts(self, claim: ResourceClaim) -> bool:
        return claim.key in self._users

    def add(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            if claim.key not in self._users:
                self._change(claim, 1)
            add_amount(self._users, claim.key, 1)

    def remove(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            if claim.key in self._users:
                add_amount(self._users, claim.key, -1)
                if claim.key not in self._users:
                    self._change(claim, -1)

    def _change(self, claim: ResourceClaim, sign: int) -> None:
        for amounts in claimed_devices(claim).values():
            for name, amount in amounts.items():
                _add(self.amounts, name, sign * amount)
