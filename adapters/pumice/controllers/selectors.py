"""Label selectors of Kubernetes objects."""

from collections.abc import Mapping
from typing import Any


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a selector selects an object with these labels. An empty selector selects nothing."""
    if not selector:
        return False
    given = labels or {}
    equal = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    if not equal and not expressions:
        return False
    return all(given.get(key) == value for key, value in equal.items()) and all(
        _holds(one, given) for one in expressions
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
