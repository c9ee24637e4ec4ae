"""Amounts and times of the wire as Kubernetes writes them."""

from datetime import UTC, datetime
from typing import Final

_BY_ONE: Final = ("memory", "pods", "ephemeral-storage")
_BY_ONE_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


def quantity(name: str, amount: int) -> str:
    """An amount in the units of the wire, exact."""
    if name in _BY_ONE or name.startswith(_BY_ONE_PREFIXES):
        return str(amount)
    whole, rest = divmod(amount, 1000)
    return f"{amount}m" if rest else str(whole)


def shown_time(time_ns: int) -> str:
    """Seconds are all that a metav1.Time has."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
