"""How much of a device's capacities a request takes, by the policies of the device."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.core.model.devices import CapacityPolicy, Device, DeviceCapacity, DeviceSubRequest

_THOUSAND = 1000


def consumed_capacity(
    wanted: DeviceSubRequest, device: Device, driver: str
) -> Mapping[str, int] | None:
    """The amount of every capacity that the request takes; None: it asks for what is not there.

    A capacity that is not requested is taken by default, or as a whole.
    """
    asked = {name if "/" in name else f"{driver}/{name}": value for name, value in wanted.capacity}
    if not asked.keys() <= device.capacity.keys() or any(amount < 0 for amount in asked.values()):
        return None
    found = {}
    for name, capacity in device.capacity.items():
        amount = _amount(asked.get(name), capacity)
        if capacity.policy is not None and not _is_valid(amount, capacity.policy):
            return None
        found[name] = amount
    return found


def _amount(asked: int | None, capacity: DeviceCapacity) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.minimum is not None:
        return _in_range(asked, policy.minimum, policy.step)
    # The smallest valid value that is enough.
    return next((value for value in policy.valid_values if asked <= value), asked)


def _in_range(asked: int, minimum: int, step: int | None) -> int:
    if asked < minimum:
        return minimum
    if not step:
        return asked
    # Kubernetes counts steps in whole units.
    low, width = _whole(minimum), _whole(step)
    return (low - (low - _whole(asked)) // width * width) * _THOUSAND


def _is_valid(amount: int, policy: CapacityPolicy) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    if policy.minimum is not None or policy.maximum is not None or policy.step is not None:
        if policy.maximum is not None and amount > policy.maximum:
            return False
        low = _whole(policy.minimum or 0)
        return not policy.step or (_whole(amount) - low) % _whole(policy.step) == 0
    return not policy.valid_values or amount in policy.valid_values


def _whole(amount: int) -> int:
    """Whole units, rounded up."""
    return -(-amount // _THOUSAND)
