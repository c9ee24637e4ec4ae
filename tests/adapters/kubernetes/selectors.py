"""The terms of field and label selectors that the fake API server knows."""

from typing import Any


def matches_field(body: dict[str, Any], term: str) -> bool:
    negative = "!=" in term
    path, _, value = term.partition("!=" if negative else "=")
    found: Any = body
    for part in path.split("."):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return ((found or "") == value) != negative


def has_label(body: dict[str, Any], term: str) -> bool:
    key, equals, value = term.removeprefix("!").partition("=")
    labels = body.get("metadata", {}).get("labels") or {}
    is_there = key in labels and (not equals or labels[key] == value)
    return is_there != term.startswith("!")
