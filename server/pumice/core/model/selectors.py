"""Label selectors, taints and tolerations, with Kubernetes' rules of matching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from pumice.patterns.golang import parse_int


class Operator(IntEnum):
    """How a requirement compares a label with its values."""

    IN = 1
    NOT_IN = 2
    EXISTS = 3
    DOES_NOT_EXIST = 4
    GREATER_THAN = 5
    LESS_THAN = 6


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether it has the values that its operator needs."""
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                return bool(self.values)
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                return not self.values
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                return len(self.values) == 1 and parse_int(self.values[0]) is not None

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        left, right = parse_int(value), parse_int(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator is Operator.GREATER_THAN else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold; without any, every object is selected."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """One alternative of a node affinity: requirements on labels and on the node's name."""

    label_requirements: tuple[Requirement, ...] = ()
    # Only ``metadata.name`` with IN or NOT_IN and one value is supported.
    field_requirements: tuple[Requirement, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether it has requirements, all of them valid."""
        if not self.label_requirements and not self.field_requirements:
            return False
        return all(requirement.is_sound for requirement in self.label_requirements)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if not self.is_sound:
            return False
        return all(r.matches(labels) for r in self.label_requirements) and all(
            _field_matches(r, name) for r in self.field_requirements
        )


def _field_matches(requirement: Requirement, name: str) -> bool:
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return False
    if requirement.operator is Operator.IN:
        return name == requirement.values[0]
    return requirement.operator is Operator.NOT_IN and name != requirement.values[0]


class TaintEffect(IntEnum):
    """What a taint does to pods that do not tolerate it."""

    ANY = 0
    NO_SCHEDULE = 1
    PREFER_NO_SCHEDULE = 2
    NO_EXECUTE = 3


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node or device."""

    key: str
    value: str
    effect: TaintEffect

    @property
    def repels(self) -> bool:
        """Whether no new pod may use the node unless it tolerates the taint."""
        return self.effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's permission to ignore taints; an empty key with ``exists`` ignores all of them."""

    key: str = ""
    value: str = ""
    exists: bool = False
    effect: TaintEffect = TaintEffect.ANY

    def tolerates(self, taint: Taint) -> bool:
        if self.effect not in (TaintEffect.ANY, taint.effect):
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or self.value == taint.value
