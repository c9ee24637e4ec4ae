"""Resource vectors, with exact arithmetic and Volcano's comparisons."""

from __future__ import annotations

from collections.abc import Iterable

Number = int | float

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

# Computed amounts that differ by less are equal. Stored amounts are integers, which differ by 1.
EPSILON = 0.1
# Amounts that Volcano counts in thousandths and pumice does not.
_COUNTED_WHOLE = ("ephemeral-storage", "hugepages-")


def _at_most(left: Number, right: Number) -> bool:
    return left - right < EPSILON


class Resources:
    """Amounts of cpu (milli), memory (bytes) and scalars, which may be absent.

    An empty scalar map stands for an absent one. As in Volcano, a subtraction from a vector without
    scalars ignores the scalars of the other.
    """

    __slots__ = ("memory", "milli_cpu", "scalars")

    def __init__(
        self,
        milli_cpu: Number = 0,
        memory: Number = 0,
        scalars: dict[str, Number] | None = None,
    ) -> None:
        self.milli_cpu = milli_cpu
        self.memory = memory
        self.scalars: dict[str, Number] = {} if scalars is None else scalars

    @classmethod
    def of(cls, amounts: Iterable[tuple[str, int]] | None) -> Resources:
        result = cls()
        for name, amount in amounts or ():
            if name == CPU:
                result.milli_cpu = amount
            elif name == MEMORY:
                result.memory = amount
            else:
                result.scalars[name] = amount
        return result

    def __repr__(self) -> str:
        return f"Resources({dict(self.items())})"

    def __eq__(self, other: object) -> bool:
        """Whether all amounts are exactly the same; an absent scalar does not equal zero."""
        if not isinstance(other, Resources):
            return NotImplemented
        return (
            self.milli_cpu == other.milli_cpu
            and self.memory == other.memory
            and self.scalars == other.scalars
        )

    __hash__ = None  # type: ignore[assignment]

    def items(self) -> list[tuple[str, Number]]:
        return [(CPU, self.milli_cpu), (MEMORY, self.memory), *sorted(self.scalars.items())]

    def volcano_scalars(self) -> dict[str, float]:
        """Scalars by name in Volcano's units: storage and huge pages are in thousandths there."""
        return {
            name: float(amount * 1000 if name.startswith(_COUNTED_WHOLE) else amount)
            for name, amount in sorted(self.scalars.items())
        }

    def clone(self) -> Resources:
        return Resources(self.milli_cpu, self.memory, dict(self.scalars))

    def get(self, name: str) -> Number:
        if name == CPU:
            return self.milli_cpu
        if name == MEMORY:
            return self.memory
        return self.scalars.get(name, 0)

    def names(self) -> list[str]:
        """The dimensions that hold something, in a fixed order."""
        return [name for name, amount in self.items() if amount >= EPSILON]

    def is_empty(self) -> bool:
        """Whether all amounts but pods are zero."""
        return (
            self.milli_cpu < EPSILON
            and self.memory < EPSILON
            and all(v < EPSILON for name, v in self.scalars.items() if name != PODS)
        )

    # Arithmetic, in place.

    def add(self, other: Resources) -> Resources:
        self.milli_cpu += other.milli_cpu
        self.memory += other.memory
        scalars = self.scalars
        for name, amount in other.scalars.items():
            scalars[name] = scalars.get(name, 0) + amount
        return self

    def add_times(self, other: Resources, count: int) -> Resources:
        self.milli_cpu += count * other.milli_cpu
        self.memory += count * other.memory
        scalars = self.scalars
        for name, amount in other.scalars.items():
            scalars[name] = scalars.get(name, 0) + count * amount
        return self

    def subtract(self, other: Resources) -> Resources:
        """Subtracts; as in Volcano, the result may be negative."""
        self.milli_cpu -= other.milli_cpu
        self.memory -= other.memory
        scalars = self.scalars
        if scalars:
            for name, amount in other.scalars.items():
                scalars[name] = scalars.get(name, 0) - amount
        return self

    def change(self, other: Resources, count: int) -> Resources:
        """Adds the other ``count`` times, or subtracts it once where the count is negative."""
        return self.add_times(other, count) if count > 0 else self.subtract(other)

    def scale(self, ratio: float) -> Resources:
        self.milli_cpu *= ratio
        self.memory *= ratio
        for name in self.scalars:
            self.scalars[name] *= ratio
        return self

    def raise_to(self, other: Resources) -> Resources:
        """Raises each amount to that of the other; a negative scalar counts as absent."""
        self.milli_cpu = max(self.milli_cpu, other.milli_cpu)
        self.memory = max(self.memory, other.memory)
        scalars = {name: amount for name, amount in self.scalars.items() if amount >= 0}
        for name, amount in other.scalars.items():
            if amount >= 0:
                scalars[name] = max(amount, scalars.get(name, 0))
        self.scalars = scalars
        return self

    def lower_to(self, other: Resources, *, missing_is_zero: bool) -> Resources:
        """Lowers each amount to that of the other; a scalar that the other lacks becomes zero, or stays."""
        self.milli_cpu = min(self.milli_cpu, other.milli_cpu)
        self.memory = min(self.memory, other.memory)
        for name, amount in self.scalars.items():
            if name in other.scalars:
                self.scalars[name] = min(amount, other.scalars[name])
            elif missing_is_zero:
                self.scalars[name] = 0
        return self

    def surplus_over(self, other: Resources) -> Resources:
        """The amounts by which this exceeds the other."""
        return Resources(
            max(self.milli_cpu - other.milli_cpu, 0),
            max(self.memory - other.memory, 0),
            {n: v - other.scalars.get(n, 0) for n, v in self.scalars.items() if v > other.get(n)},
        )

    # Comparisons. A request says which dimensions count; pods never count.

    def less_equal(self, other: Resources) -> bool:
        """Whether no amount exceeds that of the other; a missing scalar is zero."""
        if not (_at_most(self.milli_cpu, other.milli_cpu) and _at_most(self.memory, other.memory)):
            return False
        for name, amount in self.scalars.items():
            if not _at_most(amount, other.scalars.get(name, 0)):
                return False
        return True

    def names_above_for(self, limit: Resources, request: Resources) -> list[str]:
        """The requested dimensions in which this exceeds the limit, without tolerance."""
        return [
            name
            for name, amount in request.items()
            if name != PODS and amount > 0 and self.get(name) > limit.get(name)
        ]

    def has_room_for(self, extra: Resources, limit: Resources) -> bool:
        """Whether the sum of this and the extra is within the limit, in all that the extra requests.

        The answer is that of ``names_above_for`` for the sum, but no sum is made.
        """
        amount = extra.milli_cpu
        if amount > 0 and self.milli_cpu + amount > limit.milli_cpu:
            return False
        amount = extra.memory
        if amount > 0 and self.memory + amount > limit.memory:
            return False
        if len(extra.scalars) == 1 and PODS in extra.scalars:
            return True
        mine, allowed = self.scalars, limit.scalars
        for name, amount in extra.scalars.items():
            if name != PODS and amount > 0 and mine.get(name, 0) + amount > allowed.get(name, 0):
                return False
        return True

    def shares_names(self, other: Resources, *, pods: bool) -> bool:
        """Whether both have some of one resource; pods count on request."""
        theirs = other.names()
        return any(name in theirs for name in self.names() if pods or name != PODS)

    def times_within(self, extra: Resources, limit: Resources, count: int) -> int:
        """How often the extra can be added within the limit, up to ``count`` times.

        The result is that of ``has_room_for`` before each addition.
        """
        if count == 1:
            return int(self.has_room_for(extra, limit))
        # Mostly there is room for all of them.
        low, middle, high = 0, count, count
        while low < high:
            total = self.clone().add_times(extra, middle - 1)
            if total.has_room_for(extra, limit):
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return low

    def some_within(self, limit: Resources, request: Resources) -> bool:
        """Whether some requested dimension is within the limit; those that both lack do not count."""
        for name, amount in request.items():
            if name == PODS or amount <= 0:
                continue
            mine, allowed = self.get(name), limit.get(name)
            if mine < EPSILON and allowed < EPSILON:
                continue
            if _at_most(mine, allowed):
                return True
        return False

    def some_above(self, limit: Resources, request: Resources) -> bool:
        """Whether some requested dimension exceeds the limit, where the limit has it; no tolerance."""
        for mine, allowed, asked in (
            (self.milli_cpu, limit.milli_cpu, request.milli_cpu),
            (self.memory, limit.memory, request.memory),
        ):
            if asked > 0 and allowed >= EPSILON and mine > allowed:
                return True
        return any(
            amount > 0
            and name != PODS
            and name in limit.scalars
            and self.get(name) > limit.scalars[name]
            for name, amount in request.scalars.items()
        )

    def dominant_share(self, of: Resources) -> float:
        """The largest fraction of a resource of the other that this has."""
        result = 0.0
        if of.milli_cpu >= EPSILON and (part := self.milli_cpu / of.milli_cpu) > result:
            result = part
        if of.memory >= EPSILON and (part := self.memory / of.memory) > result:
            result = part
        wholes = of.scalars
        for name, amount in self.scalars.items():
            whole = wholes.get(name, 0)
            if whole >= EPSILON and (part := amount / whole) > result:
                result = part
        return result
