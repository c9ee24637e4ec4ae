"""Converts selectors, taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from pumice.server.wire.conversion import Field
from pumice.server.wire.fields import enum_value, non_empty
from pumice.v1 import selector_pb2

# Protocol and engine use the same numbers, which a test checks.
_OPERATORS = {int(operator): operator for operator in Operator}
_EFFECTS = {int(effect): effect for effect in TaintEffect}
_EXISTS = "Exists"
_TOLERATIONS = {
    selector_pb2.TOLERATION_OPERATOR_UNSPECIFIED: "Equal",
    selector_pb2.TOLERATION_OPERATOR_EQUAL: "Equal",
    selector_pb2.TOLERATION_OPERATOR_EXISTS: _EXISTS,
}
_TAINT_EFFECTS = {number: effect for number, effect in _EFFECTS.items() if number}


def _operator(operator: Operator) -> selector_pb2.Operator.ValueType:
    return selector_pb2.Operator.ValueType(operator)


def _effect(effect: TaintEffect) -> selector_pb2.TaintEffect.ValueType:
    return selector_pb2.TaintEffect.ValueType(effect)


def _read_requirement(path: str, message: selector_pb2.Requirement) -> Requirement:
    return Requirement(
        non_empty(f"{path}.key", message.key),
        enum_value(f"{path}.operator", message.operator, _OPERATORS),
        tuple(message.values),
    )


def _read_requirements(
    path: str, messages: Iterable[selector_pb2.Requirement]
) -> tuple[Requirement, ...]:
    return tuple(_read_requirement(f"{path}[{i}]", m) for i, m in enumerate(messages))


def _write_requirements(requirements: Iterable[Requirement]) -> list[selector_pb2.Requirement]:
    return [
        selector_pb2.Requirement(key=r.key, operator=_operator(r.operator), values=r.values)
        for r in requirements
    ]


def read_selector(path: str, message: selector_pb2.LabelSelector) -> LabelSelector:
    return LabelSelector(_read_requirements(f"{path}.requirements", message.requirements))


def write_selector(selector: LabelSelector | None) -> selector_pb2.LabelSelector | None:
    if selector is None:
        return None
    return selector_pb2.LabelSelector(requirements=_write_requirements(selector.requirements))


def read_node_term(path: str, message: selector_pb2.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        _read_requirements(f"{path}.label_requirements", message.label_requirements),
        _read_requirements(f"{path}.field_requirements", message.field_requirements),
    )


def read_node_terms(
    path: str, messages: Iterable[selector_pb2.NodeSelectorTerm]
) -> tuple[NodeSelectorTerm, ...]:
    return tuple(read_node_term(f"{path}[{i}]", m) for i, m in enumerate(messages))


def write_node_term(term: NodeSelectorTerm) -> selector_pb2.NodeSelectorTerm:
    return selector_pb2.NodeSelectorTerm(
        label_requirements=_write_requirements(term.label_requirements),
        field_requirements=_write_requirements(term.field_requirements),
    )


def write_node_selector(
    terms: tuple[NodeSelectorTerm, ...] | None,
) -> selector_pb2.NodeSelector | None:
    if terms is None:
        return None
    return selector_pb2.NodeSelector(terms=map(write_node_term, terms))


def read_taint(path: str, message: selector_pb2.Taint) -> Taint:
    return Taint(
        non_empty(f"{path}.key", message.key),
        message.value,
        enum_value(f"{path}.effect", message.effect, _TAINT_EFFECTS),
    )


def write_taint(taint: Taint) -> selector_pb2.Taint:
    return selector_pb2.Taint(key=taint.key, value=taint.value, effect=_effect(taint.effect))


def read_toleration(path: str, message: selector_pb2.Toleration) -> Toleration:
    exists = enum_value(f"{path}.operator", message.operator, _TOLERATIONS)
    effect = enum_value(f"{path}.effect", message.effect, _EFFECTS)
    return Toleration(message.key, message.value, exists is _EXISTS, effect)


def write_toleration(toleration: Toleration) -> selector_pb2.Toleration:
    return selector_pb2.Toleration(
        key=toleration.key,
        value=toleration.value,
        operator=selector_pb2.TOLERATION_OPERATOR_EXISTS
        if toleration.exists
        else selector_pb2.TOLERATION_OPERATOR_EQUAL,
        effect=_effect(toleration.effect),
    )


# For declarations of conversions.
SELECTOR = Field(read_selector, write_selector)
NODE_TERM = Field(read_node_term, write_node_term)
NODE_SELECTOR = Field(
    lambda path, message: read_node_terms(f"{path}.terms", message.terms), write_node_selector
)
TAINT = Field(read_taint, write_taint)
TOLERATION = Field(read_toleration, write_toleration)
