"""Checks the node affinity of volumes."""

from collections.abc import Mapping, Sequence

import msgspec


class Requirement(msgspec.Struct):
    """One requirement on a label or a field of a node."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(msgspec.Struct, rename="camel"):
    """A term, which is satisfied if all its requirements are."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


def is_satisfied(terms: Sequence[Term], name: str, labels: Mapping[str, str]) -> bool:
    """Whether any term is satisfied. A term without requirements never is."""
    return any(_term_is_satisfied(term, name, labels) for term in terms)


def _term_is_satisfied(term: Term, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    return all(_matches(r, labels) for r in expressions) and all(
        _matches(r, {"metadata.name": name}) for r in fields
    )


def _matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    held, values = labels.get(requirement.key), requirement.values or []
    match requirement.operator:
        case "In":
            return held in values
        case "NotIn":
            return held not in values
        case "Exists":
            return held is not None
        case "DoesNotExist":
            return held is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, held, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        found, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if operator == "Gt" else found < bound
