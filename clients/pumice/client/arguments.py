"""Checks of arguments of calls. Each error names the argument and the allowed values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from pumice.client.enums import PodGroupPhase, phase_named
from pumice.client.errors import ArgumentError
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.job_result_pb2 import ObjectKey
from pumice.v1.object_pb2 import Kind, ObjectRef

# A year; a longer timeout is probably a mistake.
_MOST_SECONDS = 366 * 24 * 3600
_MOST_COUNT = 2**31 - 1
_WITH_NAMESPACE = 3
# Kinds without a namespace.
_CLUSTER_KINDS = frozenset(
    {
        "node", "queue", "priorityclass", "namespace", "persistentvolume", "storageclass", "csinode",
        "csidriver", "volumeattachment", "resourceslice", "deviceclass", "hypernode", "numatopology",
        "nodeshard",
    }
)  # fmt: skip
_KINDS = {
    name.removeprefix("KIND_").replace("_", "").lower(): number
    for name, number in Kind.items()
    if number
}

ConfigurationLike = str | Path | Mapping[str, Any] | Configuration
RemovedLike = str | ObjectRef | ObjectKey


def text(name: str, value: object, *, empty: bool = True) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name}: {_type(value)} given; allowed: a string")
    if not value and not empty:
        raise ArgumentError(f"{name} is empty")
    return value


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name}: {_type(value)} given; allowed: True or False")
    return value


def count(name: str, value: object, least: int = 0) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"{name}: {_type(value)} given; allowed: a whole number")
    if not least <= value <= _MOST_COUNT:
        raise ArgumentError(f"{name}: {value} given; allowed: from {least} to {_MOST_COUNT}")
    return value


def seconds(name: str, value: object, *, zero: bool = False) -> float | None:
    """A time in seconds, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(f"{name}: {_type(value)} given; allowed: a number of seconds")
    if not math.isfinite(value) or value > _MOST_SECONDS or value < 0 or not (value or zero):
        least = "0" if zero else "above 0"
        raise ArgumentError(f"{name}: {value} given; allowed: {least} to {_MOST_SECONDS} seconds")
    return float(value)


def without_trial(**given: float | None) -> None:
    """Refuses arguments of an explanation that have no effect with a manifest or configuration."""
    for name, value in given.items():
        if value:
            raise ArgumentError(f"{name} cannot be used with a manifest or configuration")


def full_name(name: str, value: object) -> tuple[str, str]:
    """Namespace and name; a name without a namespace is in ``default``."""
    namespace, slash, own = text(name, value, empty=False).partition("/")
    if not slash:
        namespace, own = "default", namespace
    if not namespace or not own or "/" in own:
        raise ArgumentError(f"{name}: {value!r} given; allowed: namespace/name")
    return namespace, own


def phases(value: object) -> list[PodGroupPhase]:
    """Phases, given as members or names."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ArgumentError(f"phases: {_type(value)} given; allowed: a list of phases")
    found = []
    for each in value:
        try:
            found.append(phase_named(text("phases", each)))
        except ValueError as error:
            raise ArgumentError(f"phases: {error}") from None
    return found


def configuration(value: object) -> Configuration:
    """A configuration from text, a file, a mapping or a message."""
    match value:
        case Configuration():
            return value
        case Path():
            return Configuration(scheduler_conf=read_file("configuration", value))
        case Mapping():
            # JSON is YAML.
            return Configuration(scheduler_conf=encoded("configuration", value))
        case str():
            return Configuration(scheduler_conf=value)
        case _:
            raise ArgumentError(
                f"configuration: {_type(value)} given; allowed: the text of a scheduler "
                "configuration, a Path, a mapping or a Configuration"
            )


def removed(values: object) -> tuple[list[ObjectRef], list[ObjectKey]]:
    """Objects to remove: by kind and uid, and by kind and name."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ArgumentError(f"removed: {_type(values)} given; allowed: a list")
    refs, keys = [], []
    for each in values:
        if isinstance(each, ObjectRef):
            refs.append(each)
        elif isinstance(each, ObjectKey):
            keys.append(each)
        else:
            keys.append(_key(each))
    return refs, keys


def _key(value: object) -> ObjectKey:
    parts = text("removed", value).split("/")
    number = _KINDS.get(parts[0].lower().replace("_", ""))
    if number is None:
        raise ArgumentError(
            f"removed: {value!r} names no kind; allowed: KIND/NAME or KIND/NAMESPACE/NAME, where KIND "
            f"is one of {', '.join(_KINDS)}"
        )
    has_namespace = parts[0].lower() not in _CLUSTER_KINDS
    if has_namespace and len(parts) == _WITH_NAMESPACE - 1:
        parts.insert(1, "default")
    if len(parts) != 2 + has_namespace or not all(parts):
        form = "KIND/NAMESPACE/NAME" if has_namespace else "KIND/NAME"
        raise ArgumentError(f"removed: {value!r} given; allowed: {form}")
    namespace = parts[1] if has_namespace else ""
    return ObjectKey(kind=Kind.ValueType(number), namespace=namespace, name=parts[-1])


def read_file(name: str, path: Path) -> str:
    """Reads the text of a file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ArgumentError(f"{name}: {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise ArgumentError(f"{name}: {path}: not UTF-8 text ({error})") from None


def encoded(name: str, value: Mapping[str, Any]) -> str:
    """A mapping as JSON; refuses numbers that JSON cannot represent."""
    try:
        return json.dumps(value, allow_nan=False, default=_json_value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ArgumentError(f"{name}: {str(error) or type(error).__name__}") from None


def _json_value(value: object) -> object:
    """A value without a JSON type, converted to one with a JSON type."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    raise TypeError(f"{_type(value)} given; allowed: values that JSON can represent")


def _type(value: object) -> str:
    return type(value).__name__
