"""The decision ledger: received decisions, incomplete gangs, and decisions without an outcome.

A decision is held from the moment at which it may be applied until the core has acknowledged its
outcome. Decisions of an incomplete gang are not held: they are dropped when the stream ends, and the
core notices because the next Hello does not contain them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pumice.adapters.runtime.buffer import HeldGroup
from pumice.v1.decision_pb2 import Decision, Gang

# Number of closed decisions that are kept, to detect duplicates.
REMEMBERED = 200_000


@dataclass(frozen=True, slots=True)
class Order:
    """Decisions that are applied together: a complete gang, or a single decision."""

    gang: Gang | None
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Decisions that are not applied, with the reason."""

    decisions: tuple[Decision, ...]
    reason: str


@dataclass(slots=True)
class _Assembly:
    gang: Gang
    decisions: dict[str, Decision] = field(default_factory=dict)


class Ledger:
    """Collects decisions, and releases them as orders. A gang is released when it is complete."""

    def __init__(self, held_group: Callable[[str], HeldGroup | None]) -> None:
        self._held_group = held_group
        self._assemblies: dict[str, _Assembly] = {}
        self._held: dict[str, None] = {}
        self._closed: OrderedDict[str, None] = OrderedDict()
        self.duplicates = 0

    def add(self, gangs: Iterable[Gang], decisions: Iterable[Decision]) -> list[Order | Refusal]:
        """Adds the decisions of a message; returns the orders and refusals that are ready."""
        named = {gang.id: gang for gang in gangs}
        ready: list[Order | Refusal] = []
        for decision in decisions:
            if self._is_known(decision):
                self.duplicates += 1
            elif not decision.gang_id:
                self._held[decision.id] = None
                ready.append(Order(None, (decision,)))
            elif decision.gang_id not in named:
                self._held[decision.id] = None
                ready.append(Refusal((decision,), f"gang {decision.gang_id} is not described"))
            elif whole := self._assemble(named[decision.gang_id], decision):
                ready.append(self._admit(whole))
        return ready

    def why_not_gang(self, gang: Gang) -> str | None:
        """Why the decisions of a gang no longer match its PodGroup; None: they match."""
        if not gang.pod_group_uid:
            # A gang without a PodGroup cannot be compared.
            return None
        held = self._held_group(gang.job)
        if held is None:
            return f"pod group {gang.job} was deleted"
        if held.uid != gang.pod_group_uid:
            return f"pod group {gang.job} was replaced by another one"
        if held.spec_hash != gang.spec_hash:
            return f"pod group {gang.job} has changed since the decision"
        return None

    def forget_incomplete(self) -> list[Decision]:
        """Removes and returns the decisions of incomplete gangs."""
        parts = [part for a in self._assemblies.values() for part in a.decisions.values()]
        self._assemblies.clear()
        return parts

    def close(self, decision_ids: Iterable[str]) -> None:
        """Closes decisions whose outcomes the core knows or does not need."""
        for decision_id in decision_ids:
            self._held.pop(decision_id, None)
            self._closed[decision_id] = None
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)

    def held_ids(self) -> list[str]:
        return list(self._held)

    def _is_known(self, decision: Decision) -> bool:
        if decision.id in self._held or decision.id in self._closed:
            return True
        assembly = self._assemblies.get(decision.gang_id)
        return assembly is not None and decision.id in assembly.decisions

    def _assemble(self, gang: Gang, decision: Decision) -> _Assembly | None:
        assembly = self._assemblies.setdefault(gang.id, _Assembly(gang))
        assembly.decisions[decision.id] = decision
        if len(assembly.decisions) < assembly.gang.size:
            return None
        return self._assemblies.pop(gang.id)

    def _admit(self, assembly: _Assembly) -> Order | Refusal:
        decisions = tuple(assembly.decisions.values())
        self._held.update(dict.fromkeys(assembly.decisions))
        reason = self.why_not_gang(assembly.gang)
        if reason is not None:
            return Refusal(decisions, f"gang refused: {reason}")
        return Order(assembly.gang, decisions)
