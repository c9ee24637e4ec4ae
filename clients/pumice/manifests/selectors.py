"""Label selectors, node selectors, taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pumice.manifests.errors import FieldError
from pumice.manifests.shapes import Shape, one_of
from pumice.v1 import selector_pb2

LABEL_OPERATORS: Final[Mapping[str, selector_pb2.Operator.ValueType]] = {
    "In": selector_pb2.OPERATOR_IN,
    "NotIn": selector_pb2.OPERATOR_NOT_IN,
    "Exists": selector_pb2.OPERATOR_EXISTS,
    "DoesNotExist": selector_pb2.OPERATOR_DOES_NOT_EXIST,
}
NODE_OPERATORS: Final[Mapping[str, selector_pb2.Operator.ValueType]] = {
    **LABEL_OPERATORS,
    "Gt": selector_pb2.OPERATOR_GREATER_THAN,
    "Lt": selector_pb2.OPERATOR_LESS_THAN,
}
EFFECTS: Final[Mapping[str, selector_pb2.TaintEffect.ValueType]] = {
    "NoSchedule": selector_pb2.TAINT_EFFECT_NO_SCHEDULE,
    "PreferNoSchedule": selector_pb2.TAINT_EFFECT_PREFER_NO_SCHEDULE,
    "NoExecute": selector_pb2.TAINT_EFFECT_NO_EXECUTE,
}

# Minimum and maximum number of values of each operator, and the text for errors.
_VALUES_OF: Final = {
    "In": (1, None, "at least one value"),
    "NotIn": (1, None, "at least one value"),
    "Exists": (0, 0, "no values"),
    "DoesNotExist": (0, 0, "no values"),
    "Gt": (1, 1, "exactly one value"),
    "Lt": (1, 1, "exactly one value"),
}


class ExpressionShape(Shape, frozen=True):
    """One condition on one label, or on one field of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelectorShape(Shape, frozen=True):
    """A selector over labels."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[ExpressionShape, ...] = ()


class NodeSelectorTermShape(Shape, frozen=True):
    """One alternative of a node selector."""

    match_expressions: tuple[ExpressionShape, ...] = ()
    match_fields: tuple[ExpressionShape, ...] = ()


class NodeSelectorShape(Shape, frozen=True):
    """Alternatives of which one must match."""

    node_selector_terms: tuple[NodeSelectorTermShape, ...] = ()


class TaintShape(Shape, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class TolerationShape(Shape, frozen=True):
    """A toleration of taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


def label_selector(shape: LabelSelectorShape, field: str) -> selector_pb2.LabelSelector:
    return selector_pb2.LabelSelector(
        requirements=[
            *equalities(shape.match_labels),
            *requirements(shape.match_expressions, f"{field}.matchExpressions", LABEL_OPERATORS),
        ]
    )


def equalities(labels: Mapping[str, str]) -> list[selector_pb2.Requirement]:
    """Labels that must have these values, in the order of their keys."""
    return [
        selector_pb2.Requirement(key=key, operator=selector_pb2.OPERATOR_IN, values=[value])
        for key, value in sorted(labels.items())
    ]


def requirements(
    shapes: Iterable[ExpressionShape],
    field: str,
    operators: Mapping[str, selector_pb2.Operator.ValueType],
) -> list[selector_pb2.Requirement]:
    return [
        _requirement(shape, f"{field}[{index}]", operators) for index, shape in enumerate(shapes)
    ]


def _requirement(
    shape: ExpressionShape,
    field: str,
    operators: Mapping[str, selector_pb2.Operator.ValueType],
) -> selector_pb2.Requirement:
    if not shape.key:
        raise FieldError(f"{field}.key", "is missing")
    operator = one_of(operators, shape.operator, f"{field}.operator")
    fewest, most, allowed = _VALUES_OF[shape.operator]
    count = len(shape.values)
    if count < fewest or (most is not None and count > most):
        raise FieldError(f"{field}.values", f"{count} given for {shape.operator}", allowed)
    return selector_pb2.Requirement(key=shape.key, operator=operator, values=shape.values)


def node_term(shape: NodeSelectorTermShape, field: str) -> selector_pb2.NodeSelectorTerm:
    return selector_pb2.NodeSelectorTerm(
        label_requirements=requirements(
            shape.match_expressions, f"{field}.matchExpressions", NODE_OPERATORS
        ),
        field_requirements=requirements(shape.match_fields, f"{field}.matchFields", NODE_OPERATORS),
    )


def node_selector(shape: NodeSelectorShape, field: str) -> selector_pb2.NodeSelector:
    return selector_pb2.NodeSelector(
        terms=[
            node_term(term, f"{field}.nodeSelectorTerms[{index}]")
            for index, term in enumerate(shape.node_selector_terms)
        ]
    )


def taints(shapes: Iterable[TaintShape], field: str) -> list[selector_pb2.Taint]:
    result = []
    for index, shape in enumerate(shapes):
        if not shape.key:
            raise FieldError(f"{field}[{index}].key", "is missing")
        effect = one_of(EFFECTS, shape.effect, f"{field}[{index}].effect")
        result.append(selector_pb2.Taint(key=shape.key, value=shape.value, effect=effect))
    return result


def tolerations(shapes: Iterable[TolerationShape], field: str) -> list[selector_pb2.Toleration]:
    translated = (_toleration(shape, f"{field}[{index}]") for index, shape in enumerate(shapes))
    return [toleration for toleration in translated if toleration is not None]


def _toleration(shape: TolerationShape, field: str) -> selector_pb2.Toleration | None:
    # The feature gate of these numeric operators is off, so such a toleration has no effect.
    if shape.operator in {"Lt", "Gt"}:
        return None
    if shape.operator not in {"", "Equal", "Exists"}:
        raise FieldError(f"{field}.operator", f"{shape.operator!r} is unknown", "Equal, Exists")
    exists = shape.operator == "Exists"
    if not shape.key and not exists:
        raise FieldError(f"{field}.key", "is missing", "an empty key with operator Exists")
    effect = (
        one_of(EFFECTS, shape.effect, f"{field}.effect")
        if shape.effect
        else selector_pb2.TAINT_EFFECT_UNSPECIFIED
    )
    return selector_pb2.Toleration(
        key=shape.key,
        operator=selector_pb2.TOLERATION_OPERATOR_EXISTS
        if exists
        else selector_pb2.TOLERATION_OPERATOR_EQUAL,
        value=shape.value,
        effect=effect,
    )
