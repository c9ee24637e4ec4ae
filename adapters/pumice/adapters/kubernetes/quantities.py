"""Converts amounts and times of the protocol to the formats of Kubernetes."""

from datetime import UTC, datetime
from typing import Final

_BY_ONE: Final = ("memory", "pods", "ephemeral-storage")
_BY_ONE_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


def quantity(name: str, amount: int) -> str:
    """The quantity of an amount, which is in the units of the protocol."""
    if name in _BY_ONE or name.startswith(_BY_ONE_PREFIXES):
        return str(amount)
    whole, rest = divmod(amount, 1000)
    return f"{amount}m" if rest else str(whole)


def shown_time(time_ns: int) -> str:
    """Formats a metav1.Time, which has whole seconds."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
